// One hart of RV64IMFDC without traps of its own: ecall goes to whoever owns the hart.
#pragma once
#include "riscv/memory.h"
#include <cassert>

struct illegal_instruction_t {
  uint32_t instruction;
};

class processor_t {
public:
  explicit processor_t(memory_t &memory) : mem(memory) {}
  /// Executes one instruction; true when it was an ecall (pc is past it already).
  bool step();
  uint64_t get(unsigned reg) const {
    assert(reg < 32);
    return x[reg];
  }
  void set(unsigned reg, uint64_t value) {
    if (reg)
      x[reg] = value;
  }
  uint64_t pc = 0, instret = 0;

private:
  friend struct float_unit_t;
  memory_t &mem;
  uint64_t x[32] = {}, f[32] = {}, fcsr = 0;

  bool execute(uint32_t instruction, uint64_t next);
  void load(uint32_t instruction);
  void store(uint32_t instruction);
  uint64_t integer(uint32_t instruction, uint64_t a, uint64_t b, bool is_register) const;
  uint64_t integer_word(uint32_t instruction, uint64_t a, uint64_t b, bool is_register) const;
  bool branch(uint32_t instruction) const;
  void system(uint32_t instruction);
  void floating(uint32_t instruction);
};

/// The 32-bit form of a compressed instruction; 0 when it has none.
uint32_t expand_compressed(uint16_t instruction);
/// Assembler-like text of an instruction.
std::string disassemble(uint32_t instruction);

inline uint32_t field(uint32_t instruction, int from, int count) {
  return instruction >> from & ((1u << count) - 1);
}
inline int64_t immediate_i(uint32_t instruction) { return int32_t(instruction) >> 20; }
inline int64_t immediate_s(uint32_t instruction) {
  return int64_t(int32_t(instruction) >> 25) * 32 + field(instruction, 7, 5);
}
