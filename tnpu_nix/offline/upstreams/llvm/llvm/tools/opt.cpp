#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"
using namespace llvm;

static void optimize(Module &module, const std::string &pipeline) {
  for (const std::string &pass : splitList(pipeline, ',')) {
    bool known = pass == "dce" || pass == "verify";
    for (const char *level : {"O0", "O1", "O2", "O3", "Os", "Oz"})
      known |= pass == std::string("default<") + level + ">";
    if (!known)
      fatal("unknown pass name '" + pass + "'");
    if (pass == "verify" || pass == "default<O0>")
      continue;
    // Removing one instruction can make the ones that fed it dead.
    for (Function &function : module.functions)
      while (eliminateDeadCode(function))
        continue;
  }
}

int main(int argc, char **argv) {
  cl::Arguments arguments = cl::parse(argc, argv,
                                      {{"o", cl::Value, "Output filename"},
                                       {"S", cl::Flag, "Write output as LLVM assembly"},
                                       {"passes", cl::Value, "Pipeline, as in default<O2>"}},
                                      "llvm .bc -> .bc modular optimizer");
  Module module = parseModule(readInput(arguments));
  if (!arguments.has("S"))
    fatal("the miniature writes textual IR only: pass -S");
  optimize(module, arguments.get("passes", "verify"));
  writeOutput(arguments, printModule(module));
  return 0;
}
