// A relocatable object with one text section, and its ELF64 and assembler forms.
#pragma once
#include <cassert>
#include <cstdint>
#include <string>
#include <vector>

namespace llvm {
struct Relocation {
  uint64_t offset;
  uint32_t type;
  std::string name; // of the type, as assemblers write it
  std::string symbol;
};

struct Symbol {
  std::string name;
  uint64_t offset, size;
};

struct ObjectFile {
  uint16_t machine = 0;
  uint32_t flags = 0;
  std::vector<uint8_t> text;
  std::vector<Symbol> symbols; // functions defined in text
  std::vector<Relocation> relocations; // their other symbols are undefined ones

  void append32(uint32_t word) {
    assert(text.size() % 4 == 0 && "instructions are four bytes each");
    for (int shift = 0; shift < 32; shift += 8)
      text.push_back(word >> shift);
  }
};

std::string writeELF(const ObjectFile &object);
std::string writeAssembly(const ObjectFile &object);
} // namespace llvm
