#include "llvm/Support/CommandLine.h"
#include "mlir/Target/LLVMIR.h"
using namespace llvm;

int main(int argc, char **argv) {
  cl::Arguments arguments =
      cl::parse(argc, argv,
                {{"o", cl::Value, "Output filename"},
                 {"mlir-to-llvmir", cl::Flag, "Translate the LLVM dialect to LLVM IR"}},
                "MLIR Translation Testing Tool");
  if (!arguments.has("mlir-to-llvmir"))
    fatal("one translation has to be chosen: --mlir-to-llvmir");
  writeOutput(arguments, mlir::translateToLLVMIR(readInput(arguments)));
  return 0;
}
