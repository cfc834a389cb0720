#include "llvm/Support/CommandLine.h"
#include "mlir/IR/Operation.h"
#include "triton-shared/TritonToLinalg.h"
using namespace llvm;

int main(int argc, char **argv) {
  std::vector<cl::Option> options{{"o", cl::Value, "Output filename"},
                                  {"mlir-print-debuginfo", cl::Flag, "Accepted, without effect"}};
  std::vector<std::string> passes;
#define GEN_PASS(NAME, ARGUMENT, SUMMARY)                                                          \
  options.push_back({ARGUMENT, cl::Flag, SUMMARY});                                                \
  passes.push_back(ARGUMENT);
#include "triton-shared/Passes.h.inc"
  cl::Arguments arguments = cl::parse(argc, argv, options, "Triton-Shared test driver",
                                      "  triton-shared version " TRITON_SHARED_VERSION "\n");
  std::string module = readInput(arguments);
  mlir::parseOperations(module);
  if (arguments.has(passes.front()))
    module = triton_shared::convertTritonToLinalg(module);
  writeOutput(arguments, module);
  return 0;
}
