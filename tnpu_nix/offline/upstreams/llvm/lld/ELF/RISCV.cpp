// Relocations of the RISC-V ELF psABI, the ones that small C programs and the miniature llc make.
#include "lld/ELF/Linker.h"
#include <cstring>

namespace lld::elf {
namespace {
struct Patch {
  InputSection &section;
  const Elf64_Rela &rela;

  template <typename T> T get() const {
    T value{};
    if (rela.r_offset + sizeof value > section.data.size())
      fatal(section.where(rela.r_offset) + ": relocation is outside of its section");
    std::memcpy(&value, section.data.data() + rela.r_offset, sizeof value);
    return value;
  }
  template <typename T> void set(T value) { std::memcpy(&section.data[rela.r_offset], &value, sizeof value); }
  template <typename T> void add(uint64_t value) { set<T>(get<T>() + value); }

  // Replaces the bits that are set in mask.
  template <typename T> void bits(T mask, uint64_t value) {
    set<T>((get<T>() & ~mask) | (value & mask));
  }
  void check(int64_t value, int width) const {
    int64_t limit = int64_t(1) << (width - 1);
    if (value < -limit || value >= limit)
      fatal(section.where(rela.r_offset) + ": relocation out of range: " + std::to_string(value));
  }
};
} // namespace

static uint64_t bit(uint64_t value, int from, int count, int to) {
  return (value >> from & ((uint64_t(1) << count) - 1)) << to;
}

static void patchHigh(Patch &patch, int64_t value) {
  patch.check(value + 0x800, 32);
  patch.bits<uint32_t>(0xfffff000, value + 0x800);
}

static void patchStore(Patch &patch, uint64_t value) {
  patch.bits<uint32_t>(0xfe000f80, bit(value, 5, 7, 25) | bit(value, 0, 5, 7));
}

static void patchCall(Patch &patch, int64_t value) {
  patch.check(value + 0x800, 32);
  std::string &data = patch.section.data;
  uint32_t words[2];
  patch.get<uint64_t>();
  std::memcpy(words, &data[patch.rela.r_offset], 8);
  words[0] = (words[0] & 0xfff) | (uint32_t(value + 0x800) & 0xfffff000);
  words[1] = (words[1] & 0xfffff) | uint32_t(value) << 20;
  std::memcpy(&data[patch.rela.r_offset], words, 8);
}

static void patchJump(Patch &patch, int64_t v, uint32_t type) {
  if (type == R_RISCV_BRANCH) {
    patch.check(v, 13);
    patch.bits<uint32_t>(0xfe000f80,
                         bit(v, 12, 1, 31) | bit(v, 5, 6, 25) | bit(v, 1, 4, 8) | bit(v, 11, 1, 7));
  } else if (type == R_RISCV_JAL) {
    patch.check(v, 21);
    patch.bits<uint32_t>(0xfffff000, bit(v, 20, 1, 31) | bit(v, 1, 10, 21) | bit(v, 11, 1, 20) |
                                         bit(v, 12, 8, 12));
  } else if (type == R_RISCV_RVC_BRANCH) {
    patch.check(v, 9);
    patch.bits<uint16_t>(0x1c7c, bit(v, 8, 1, 12) | bit(v, 3, 2, 10) | bit(v, 6, 2, 5) |
                                     bit(v, 1, 2, 3) | bit(v, 5, 1, 2));
  } else {
    patch.check(v, 12);
    patch.bits<uint16_t>(0x1ffc, bit(v, 11, 1, 12) | bit(v, 4, 1, 11) | bit(v, 8, 2, 9) |
                                     bit(v, 10, 1, 8) | bit(v, 6, 1, 7) | bit(v, 7, 1, 6) |
                                     bit(v, 1, 3, 3) | bit(v, 5, 1, 2));
  }
}

// A PCREL_LO12 names the label of its PCREL_HI20; the value is the one that belongs there.
static int64_t highPartner(const Linker &linker, const InputSection &section, uint32_t label) {
  const InputFile &file = *section.file;
  const Elf64_Sym &symbol = file.symbols.at(label);
  const InputSection &home = file.sections.at(symbol.st_shndx);
  for (const Elf64_Rela &rela : home.relocations)
    if (rela.r_offset == symbol.st_value && ELF64_R_TYPE(rela.r_info) == R_RISCV_PCREL_HI20)
      return linker.address(file, ELF64_R_SYM(rela.r_info), home.where(rela.r_offset)) +
             rela.r_addend - (home.address + rela.r_offset);
  fatal(home.where(symbol.st_value) + ": R_RISCV_PCREL_LO12 without its R_RISCV_PCREL_HI20");
}

// Data: differences of labels, as in debug information and jump tables.
static bool patchData(Patch &patch, uint32_t type, uint64_t s, uint64_t place) {
  switch (type) {
  case R_RISCV_32: patch.set<uint32_t>(s); return true;
  case R_RISCV_64: patch.set<uint64_t>(s); return true;
  case R_RISCV_32_PCREL: patch.set<uint32_t>(s - place); return true;
  case R_RISCV_ADD8: patch.add<uint8_t>(s); return true;
  case R_RISCV_ADD16: patch.add<uint16_t>(s); return true;
  case R_RISCV_ADD32: patch.add<uint32_t>(s); return true;
  case R_RISCV_ADD64: patch.add<uint64_t>(s); return true;
  case R_RISCV_SUB8: patch.add<uint8_t>(-s); return true;
  case R_RISCV_SUB16: patch.add<uint16_t>(-s); return true;
  case R_RISCV_SUB32: patch.add<uint32_t>(-s); return true;
  case R_RISCV_SUB64: patch.add<uint64_t>(-s); return true;
  case R_RISCV_SET6: patch.bits<uint8_t>(0x3f, s); return true;
  case R_RISCV_SUB6: patch.bits<uint8_t>(0x3f, patch.get<uint8_t>() - s); return true;
  case R_RISCV_SET8: patch.set<uint8_t>(s); return true;
  case R_RISCV_SET16: patch.set<uint16_t>(s); return true;
  case R_RISCV_SET32: patch.set<uint32_t>(s); return true;
  default: return false;
  }
}

static void checkAlignment(const Patch &patch, uint64_t place) {
  uint64_t padding = patch.rela.r_addend, wanted = 1;
  while (wanted <= padding)
    wanted *= 2;
  if ((place + padding) % wanted)
    fatal(patch.section.where(patch.rela.r_offset) +
          ": R_RISCV_ALIGN needs nops removed, which the miniature cannot: compile with -mno-relax");
}

static void apply(const Linker &linker, InputSection &section, const Elf64_Rela &rela) {
  uint32_t type = ELF64_R_TYPE(rela.r_info), index = ELF64_R_SYM(rela.r_info);
  uint64_t place = section.address + rela.r_offset;
  Patch patch{section, rela};
  if (type == R_RISCV_NONE || type == R_RISCV_RELAX)
    return;
  if (type == R_RISCV_ALIGN)
    return checkAlignment(patch, place);
  uint64_t s = linker.address(*section.file, index, section.where(rela.r_offset)) + rela.r_addend;
  if (patchData(patch, type, s, place))
    return;
  switch (type) {
  case R_RISCV_CALL:
  case R_RISCV_CALL_PLT: return patchCall(patch, s - place);
  case R_RISCV_PCREL_HI20: return patchHigh(patch, s - place);
  case R_RISCV_HI20: return patchHigh(patch, s);
  case R_RISCV_LO12_I: return patch.bits<uint32_t>(0xfff00000, s << 20);
  case R_RISCV_LO12_S: return patchStore(patch, s);
  case R_RISCV_PCREL_LO12_I:
    return patch.bits<uint32_t>(0xfff00000, uint64_t(highPartner(linker, section, index)) << 20);
  case R_RISCV_PCREL_LO12_S: return patchStore(patch, highPartner(linker, section, index));
  case R_RISCV_BRANCH:
  case R_RISCV_JAL:
  case R_RISCV_RVC_BRANCH:
  case R_RISCV_RVC_JUMP: return patchJump(patch, s - place, type);
  default:
    fatal(section.where(rela.r_offset) + ": unknown relocation (" + std::to_string(type) +
          ") against symbol " + section.file->symbolName(index));
  }
}

void relocateRISCV(const Linker &linker, InputSection &section) {
  for (const Elf64_Rela &rela : section.relocations)
    apply(linker, section, rela);
}
} // namespace lld::elf
