// One program, told by its name what to be, as lld is.
#include "lld/ELF/Linker.h"
#include <iostream>

int main(int argc, char **argv) {
  std::string name = argv[0];
  name = name.substr(name.rfind('/') + 1);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  bool flavored = arguments.size() > 1 && arguments[0] == "-flavor" && arguments[1] == "gnu";
  if (flavored)
    arguments.erase(arguments.begin(), arguments.begin() + 2);
  if (name == "lld" && !flavored && arguments != std::vector<std::string>{"--version"}) {
    std::cerr << "lld is a generic driver (tnpu-nix miniature, not LLVM).\n"
                 "Invoke ld.lld (Unix) or lld -flavor gnu instead; the miniature has no others\n";
    return 1;
  }
  lld::elf::Linker(lld::parseArguments(arguments)).run();
  return 0;
}
