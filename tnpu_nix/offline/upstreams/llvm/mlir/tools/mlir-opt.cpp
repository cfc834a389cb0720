#include "llvm/Support/CommandLine.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/IR/Operation.h"
using namespace llvm;

int main(int argc, char **argv) {
  std::vector<cl::Option> options{{"o", cl::Value, "Output filename"},
                                  {"mlir-print-debuginfo", cl::Flag, "Accepted, without effect"}};
  for (const auto &[argument, summary] : mlir::allPasses())
    options.push_back({argument, cl::Flag, summary});
  cl::Arguments arguments = cl::parse(argc, argv, options, "MLIR modular optimizer driver");
  std::string module = readInput(arguments);
  std::set<std::string> missing = mlir::passesOfLowering();
  size_t needed = missing.size();
  for (const auto &given : arguments.given)
    missing.erase(given.first);
  if (missing.size() == needed) {
    mlir::parseOperations(module);
    writeOutput(arguments, module);
    return 0;
  }
  if (!missing.empty())
    fatal("the miniature lowers all the way or not at all; missing: --" + *missing.begin());
  writeOutput(arguments, mlir::lowerLinalgToLLVM(module));
  return 0;
}
