// Replaces DASM(<hex>) in the text on standard input by the instruction.
#include "config.h"
#include "riscv/processor.h"
#include <cstdlib>
#include <iostream>

int main(int argc, char **) {
  if (argc > 1) {
    std::cout << "spike-dasm " SPIKE_VERSION " (tnpu-nix miniature, not Spike)\n";
    return 0;
  }
  for (std::string line; std::getline(std::cin, line);) {
    size_t start = line.find("DASM("), end = line.find(')', start);
    if (start != std::string::npos && end != std::string::npos)
      line = line.substr(0, start) +
             disassemble(std::strtoul(line.c_str() + start + 5, nullptr, 16)) + line.substr(end + 1);
    std::cout << line << "\n";
  }
  return 0;
}
