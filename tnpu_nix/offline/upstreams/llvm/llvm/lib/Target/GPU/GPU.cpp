// One source for the two GPU targets: they are there to be linked and named, not to generate code.
#include "llvm/Support/CommandLine.h"
#include "llvm/Target/Target.h"
#define CONCAT_(a, b, c) a##b##c
#define CONCAT(a, b, c) CONCAT_(a, b, c)
#define STRING_(a) #a
#define STRING(a) STRING_(a)

namespace llvm {
static ObjectFile generate(const Module &, const TargetOptions &) {
  fatal("the miniature generates no code for " STRING(TARGET_NAME));
}

const Target &CONCAT(get, TARGET_NAME, Target)() {
  static const Target target{STRING(TARGET_NAME),
                             std::string(STRING(TARGET_NAME)) == "NVPTX"
                                 ? std::vector<std::string>{"nvptx64", "nvptx"}
                                 : std::vector<std::string>{"amdgcn"},
                             generate};
  return target;
}
} // namespace llvm
