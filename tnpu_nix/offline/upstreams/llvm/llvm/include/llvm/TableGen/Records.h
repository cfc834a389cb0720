// TableGen's smallest useful part: `def Name : Class<"string", ...>;` records.
#pragma once
#include <cassert>
#include <string>
#include <vector>

namespace llvm {
struct Record {
  std::string name;
  std::string parent;
  std::vector<std::string> arguments;
  const std::string &argument(unsigned index) const {
    assert(index < arguments.size() && "record has too few arguments");
    return arguments[index];
  }
};
std::vector<Record> parseRecords(const std::string &text);

/// The whole of a -tblgen program: main() of llvm-tblgen and of mlir-tblgen.
int tblgenMain(int argc, char **argv, const char *overview);
} // namespace llvm
