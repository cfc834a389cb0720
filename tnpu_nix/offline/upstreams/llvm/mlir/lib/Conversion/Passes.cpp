#include "mlir/Conversion/Passes.h"

namespace mlir {
std::vector<std::pair<std::string, std::string>> allPasses() {
  return {
#define GEN_PASS(NAME, ARGUMENT, SUMMARY) {ARGUMENT, SUMMARY},
#include "mlir/Conversion/Passes.h.inc"
  };
}

std::set<std::string> passesOfLowering() {
  return {"one-shot-bufferize",      "expand-strided-metadata", "convert-scf-to-cf",
          "convert-linalg-to-loops", "convert-arith-to-llvm",   "finalize-memref-to-llvm",
          "convert-func-to-llvm",    "convert-cf-to-llvm",      "reconcile-unrealized-casts"};
}
} // namespace mlir
