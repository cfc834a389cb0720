#include "lld/Common/Arguments.h"
#include "llvm/Config/llvm-config.h"
#include <cstdlib>
#include <iostream>
#include <map>

namespace lld {
void fatal(const std::string &message) {
  std::cerr << "ld.lld: error: " << message << "\n";
  std::exit(1);
}

static void printVersion() {
  std::cout << "tnpu-nix miniature, not LLVM\nLLD " LLVM_VERSION_STRING
               " (compatible with GNU linkers)\n";
  std::exit(0);
}

static void printHelp() {
  std::cout << "OVERVIEW: lld (tnpu-nix miniature, not LLVM): links static RV64 programs\n\n"
               "USAGE: ld.lld [options] file.o...\n\nOPTIONS:\n"
               "  -o <path>            Path of the executable\n"
               "  -e, --entry <symbol> Name of the entry point symbol\n"
               "  --image-base=<n>     Address of the first byte\n"
               "  --no-relax           Never relax: the miniature cannot\n"
               "  -m elf64lriscv, -static, -z <keyword>\n";
  std::exit(0);
}

static void checkEmulation(const std::string &name) {
  if (name != "elf64lriscv")
    fatal("unknown emulation: " + name);
}

Configuration parseArguments(const std::vector<std::string> &arguments) {
  static const std::map<std::string, bool> ignored{// name -> takes a value
                                                   {"--no-relax", false}, {"-static", false},
                                                   {"-Bstatic", false},   {"-z", true},
                                                   {"-nostdlib", false},  {"--build-id", false}};
  Configuration configuration;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string &word = arguments[i];
    auto value = [&] {
      if (++i == arguments.size())
        fatal(word + ": missing argument");
      return arguments[i];
    };
    auto known = ignored.find(word);
    if (word == "--version" || word == "-v")
      printVersion();
    else if (word == "--help")
      printHelp();
    else if (word == "-o")
      configuration.output = value();
    else if (word == "-e" || word == "--entry")
      configuration.entry = value();
    else if (word.rfind("--entry=", 0) == 0)
      configuration.entry = word.substr(8);
    else if (word.rfind("--image-base=", 0) == 0)
      configuration.imageBase = std::stoull(word.substr(13), nullptr, 0);
    else if (word == "-m")
      checkEmulation(value());
    else if (known != ignored.end() && known->second)
      value();
    else if (word[0] == '-' && known == ignored.end())
      fatal("unknown argument '" + word + "'");
    else if (word[0] != '-')
      configuration.inputs.push_back(word);
  }
  if (configuration.inputs.empty())
    fatal("no input files");
  return configuration;
}
} // namespace lld
