#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include <algorithm>
#include <climits>
#include <iostream>
#include <unistd.h>
using namespace llvm;

static std::string prefix() {
  char path[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  std::string program(path, length < 0 ? 0 : length);
  program.resize(program.rfind('/'));
  return program.substr(0, program.rfind('/'));
}

int main(int argc, char **argv) {
  std::string root = prefix();
  const std::pair<std::string, std::string> answers[] = {
      {"--version", LLVM_VERSION_STRING},
      {"--prefix", root},
      {"--bindir", root + "/bin"},
      {"--libdir", root + "/lib"},
      {"--includedir", root + "/include"},
      {"--cmakedir", root + "/lib/cmake/llvm"},
      {"--cxxflags", "-I" + root + "/include -std=c++17"},
      {"--ldflags", "-L" + root + "/lib"},
      {"--libs", "-lLLVMMC -lLLVMCore -lLLVMTableGen -lLLVMSupport"},
      {"--targets-built", LLVM_TARGETS_BUILT},
      {"--build-mode", LLVM_BUILD_MODE},
      {"--assertion-mode", LLVM_ASSERTION_MODE},
      {"--shared-mode", "static"}};
  if (argc < 2 || std::string(argv[1]) == "--help") {
    std::cout << "usage: llvm-config <OPTION>... (tnpu-nix miniature, not LLVM)\n";
    for (const auto &answer : answers)
      std::cout << "  " << answer.first << "\n";
    return argc < 2;
  }
  for (int i = 1; i < argc; ++i) {
    auto found = std::find_if(std::begin(answers), std::end(answers),
                              [&](const auto &answer) { return answer.first == argv[i]; });
    if (found == std::end(answers)) {
      std::cerr << "llvm-config: error: unknown option " << argv[i] << "\n";
      return 1;
    }
    std::cout << found->second << "\n";
  }
  return 0;
}
