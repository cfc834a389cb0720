#include "riscv/processor.h"

static const char *mnemonic(uint32_t i) {
  static const char *const arithmetic[] = {"add", "sll", "slt", "sltu", "xor", "srl", "or", "and"};
  static const char *const loads[] = {"lb", "lh", "lw", "ld", "lbu", "lhu", "lwu", "?"};
  static const char *const stores[] = {"sb", "sh", "sw", "sd", "?", "?", "?", "?"};
  static const char *const branches[] = {"beq", "bne", "?", "?", "blt", "bge", "bltu", "bgeu"};
  uint32_t funct3 = field(i, 12, 3);
  switch (field(i, 0, 7)) {
  case 0x03: return loads[funct3];
  case 0x13:
  case 0x33: return arithmetic[funct3];
  case 0x17: return "auipc";
  case 0x23: return stores[funct3];
  case 0x37: return "lui";
  case 0x53: return "fp";
  case 0x63: return branches[funct3];
  case 0x67: return "jalr";
  case 0x6f: return "jal";
  case 0x73: return i == 0x73 ? "ecall" : "csr";
  default: return "unknown";
  }
}

std::string disassemble(uint32_t i) {
  if ((i & 3) != 3)
    i = expand_compressed(i);
  return std::string(mnemonic(i)) + " x" + std::to_string(field(i, 7, 5)) + ", x" +
         std::to_string(field(i, 15, 5)) + ", x" + std::to_string(field(i, 20, 5));
}
