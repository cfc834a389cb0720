#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lld {
struct Configuration {
  std::vector<std::string> inputs;
  std::string output = "a.out";
  std::string entry = "_start";
  uint64_t imageBase = 0x10000;
};

/// Parses ld.lld's command line; --help and --version print and end the program.
Configuration parseArguments(const std::vector<std::string> &arguments);
[[noreturn]] void fatal(const std::string &message);
} // namespace lld
