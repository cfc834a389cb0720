// The interface between llc and the code generators.
#pragma once
#include "llvm/IR/Module.h"
#include "llvm/MC/ObjectFile.h"
#include <set>

namespace llvm {
struct TargetOptions {
  std::string abi;
  std::set<std::string> features; // "m", "f", ...: what -mattr switched on
};

struct Target {
  const char *name; // as in LLVM_TARGETS_TO_BUILD
  std::vector<std::string> architectures; // what -march may say
  ObjectFile (*generate)(const Module &, const TargetOptions &);
};

#define LLVM_TARGET(NAME) const Target &get##NAME##Target();
#include "llvm/Config/Targets.def"
} // namespace llvm
