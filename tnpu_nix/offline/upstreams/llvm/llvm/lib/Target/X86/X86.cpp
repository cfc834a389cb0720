// Host objects carry the kernel's symbol over a trapping instruction: the miniature runs kernels on
// RISC-V only, and code that cannot work must not look as if it did.
#include "llvm/Target/Target.h"
#include <elf.h>

namespace llvm {
static ObjectFile generate(const Module &module, const TargetOptions &) {
  ObjectFile object;
  object.machine = EM_X86_64;
  for (const Function &function : module.functions) {
    object.symbols.push_back({function.name, object.text.size(), 2});
    object.text.insert(object.text.end(), {0x0f, 0x0b}); // ud2
  }
  return object;
}

const Target &getX86Target() {
  static const Target target{"X86", {"x86-64"}, generate};
  return target;
}
} // namespace llvm
