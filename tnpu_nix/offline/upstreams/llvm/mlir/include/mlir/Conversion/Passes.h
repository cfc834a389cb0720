#pragma once
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace mlir {
/// Argument and summary of every pass.
std::vector<std::pair<std::string, std::string>> allPasses();
/// Those that the way from linalg to the LLVM dialect cannot do without.
std::set<std::string> passesOfLowering();
/// A module of linalg, memref and arith as one of the LLVM dialect.
std::string lowerLinalgToLLVM(const std::string &module);
} // namespace mlir
