#include "llvm/Support/CommandLine.h"
#include "llvm/Target/Target.h"
#include <algorithm>
using namespace llvm;

static std::vector<const Target *> targets() {
  return {
#define LLVM_TARGET(NAME) &get##NAME##Target(),
#include "llvm/Config/Targets.def"
  };
}

static const Target &lookup(const std::string &march) {
  for (const Target *target : targets())
    if (std::count(target->architectures.begin(), target->architectures.end(), march))
      return *target;
  fatal("unable to get target for '" + march + "', see --version and --triple.");
}

static std::string describeTargets() {
  std::string text = "\n  Registered Targets:\n";
  for (const Target *target : targets())
    for (const std::string &name : target->architectures)
      text += "    " + name + " - " + target->name + "\n";
  return text;
}

static std::set<std::string> parseFeatures(const std::string &list) {
  std::set<std::string> features;
  for (const std::string &feature : splitList(list, ',')) {
    if (feature.size() < 2 || (feature[0] != '+' && feature[0] != '-'))
      fatal("-mattr takes +feature and -feature, not '" + feature + "'");
    if (feature[0] == '+')
      features.insert(feature.substr(1));
    else
      features.erase(feature.substr(1));
  }
  return features;
}

int main(int argc, char **argv) {
  cl::Arguments arguments = cl::parse(
      argc, argv,
      {{"o", cl::Value, "Output filename"},
       {"march", cl::Value, "Architecture to generate code for"},
       {"mattr", cl::Value, "Target specific attributes (+a,-b)"},
       {"mcpu", cl::Value, "Target a specific cpu type (no effect)"},
       {"O", cl::Value, "Optimization level (no effect)"},
       {"target-abi", cl::Value, "The name of the ABI to be targeted"},
       {"filetype", cl::Value, "asm (default) or obj"},
       {"relocation-model", cl::Value, "static or pic: the same code in the miniature"},
       {"code-model", cl::Value, "small or medium: the same code in the miniature"}},
      "llvm system compiler", describeTargets());
  std::string filetype = arguments.get("filetype", "asm");
  if (filetype != "asm" && filetype != "obj")
    fatal("for the --filetype option: Cannot find option named '" + filetype + "'!");
  const Target &target = lookup(arguments.get("march", "x86-64"));
  TargetOptions options{arguments.get("target-abi", ""), parseFeatures(arguments.get("mattr", ""))};
  ObjectFile object = target.generate(parseModule(readInput(arguments)), options);
  writeOutput(arguments, filetype == "obj" ? writeELF(object) : writeAssembly(object));
  return 0;
}
