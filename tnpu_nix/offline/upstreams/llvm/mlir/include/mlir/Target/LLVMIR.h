#pragma once
#include <string>

namespace mlir {
/// A module of the LLVM dialect as LLVM IR.
std::string translateToLLVMIR(const std::string &module);
} // namespace mlir
