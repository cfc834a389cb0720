// FileCheck for plain CHECK lines: each must be found, in order, CHECK-NOT nowhere after the last.
#include "llvm/Support/CommandLine.h"
#include <iostream>
using namespace llvm;

static std::string trim(const std::string &text) {
  size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

int main(int argc, char **argv) {
  cl::Arguments arguments = cl::parse(
      argc, argv,
      {{"input-file", cl::Value, "File to check (default: standard input)"},
       {"check-prefix", cl::Value, "Prefix of the check lines (default: CHECK)"}},
      "FileCheck");
  if (arguments.inputs.size() != 1)
    fatal("<check-file> not specified");
  std::string prefix = arguments.get("check-prefix", "CHECK");
  std::string input = readFile(arguments.get("input-file", "-"));
  size_t position = 0, checks = 0;
  for (const std::string &line : splitLines(readFile(arguments.inputs[0]))) {
    size_t plain = line.find(prefix + ":"), negative = line.find(prefix + "-NOT:");
    if (plain != std::string::npos) {
      std::string wanted = trim(line.substr(plain + prefix.size() + 1));
      size_t found = input.find(wanted, position);
      if (found == std::string::npos)
        fatal(prefix + ": expected string not found in input: " + wanted);
      position = found + wanted.size();
      ++checks;
    } else if (negative != std::string::npos) {
      std::string unwanted = trim(line.substr(negative + prefix.size() + 5));
      if (input.find(unwanted, position) != std::string::npos)
        fatal(prefix + "-NOT: excluded string found in input: " + unwanted);
      ++checks;
    }
  }
  if (!checks)
    fatal("no check strings found with prefix '" + prefix + ":'");
  return 0;
}
