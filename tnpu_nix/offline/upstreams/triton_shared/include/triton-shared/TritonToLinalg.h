#pragma once
#include <string>

namespace triton_shared {
/// A module of Triton IR as one of linalg, memref and arith.
std::string convertTritonToLinalg(const std::string &module);
} // namespace triton_shared
