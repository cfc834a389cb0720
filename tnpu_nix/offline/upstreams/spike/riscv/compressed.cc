// The C extension: each 16-bit instruction stands for one of 32 bits.
#include "riscv/processor.h"

namespace {
struct compressed_t {
  uint32_t c;
  // Bits from..from+count-1 of the instruction, moved to bit `to` of an immediate.
  uint32_t part(int from, int count, int to) const { return field(c, from, count) << to; }
  int32_t sign(uint32_t value, int width) const { return int32_t(value << (32 - width)) >> (32 - width); }
  int32_t imm6() const { return sign(part(12, 1, 5) | part(2, 5, 0), 6); }
  uint32_t rd() const { return field(c, 7, 5); }
  uint32_t rs2() const { return field(c, 2, 5); }
  uint32_t small_rs1() const { return field(c, 7, 3) + 8; }
  uint32_t small_rs2() const { return field(c, 2, 3) + 8; }
};

uint32_t i_type(uint32_t opcode, uint32_t funct3, uint32_t rd, uint32_t rs1, int32_t imm) {
  return uint32_t(imm) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode;
}
uint32_t s_type(uint32_t opcode, uint32_t funct3, uint32_t rs1, uint32_t rs2, uint32_t imm) {
  return imm >> 5 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | (imm & 31) << 7 | opcode;
}
uint32_t r_type(uint32_t opcode, uint32_t funct3, uint32_t funct7, uint32_t rd, uint32_t rs1,
                uint32_t rs2) {
  return funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode;
}
uint32_t jump(int32_t o) {
  return uint32_t(o >> 20 & 1) << 31 | uint32_t(o >> 1 & 0x3ff) << 21 | uint32_t(o >> 11 & 1) << 20 |
         uint32_t(o >> 12 & 0xff) << 12 | 0x6f;
}
uint32_t branch(uint32_t funct3, uint32_t rs1, int32_t o) {
  return uint32_t(o >> 12 & 1) << 31 | uint32_t(o >> 5 & 0x3f) << 25 | rs1 << 15 | funct3 << 12 |
         uint32_t(o >> 1 & 0xf) << 8 | uint32_t(o >> 11 & 1) << 7 | 0x63;
}
} // namespace

static uint32_t quadrant0(compressed_t k, uint32_t funct3) {
  uint32_t word = k.part(10, 3, 3) | k.part(6, 1, 2) | k.part(5, 1, 6);
  uint32_t wide = k.part(10, 3, 3) | k.part(5, 2, 6);
  uint32_t stack = k.part(11, 2, 4) | k.part(7, 4, 6) | k.part(6, 1, 2) | k.part(5, 1, 3);
  switch (funct3) {
  case 0: return stack ? i_type(0x13, 0, k.small_rs2(), 2, stack) : 0;
  case 1: return i_type(0x07, 3, k.small_rs2(), k.small_rs1(), wide);
  case 2: return i_type(0x03, 2, k.small_rs2(), k.small_rs1(), word);
  case 3: return i_type(0x03, 3, k.small_rs2(), k.small_rs1(), wide);
  case 5: return s_type(0x27, 3, k.small_rs1(), k.small_rs2(), wide);
  case 6: return s_type(0x23, 2, k.small_rs1(), k.small_rs2(), word);
  case 7: return s_type(0x23, 3, k.small_rs1(), k.small_rs2(), wide);
  default: return 0;
  }
}

static uint32_t arithmetic(compressed_t k) {
  uint32_t rd = k.small_rs1(), rs2 = k.small_rs2(), which = field(k.c, 5, 2);
  uint32_t shift = k.imm6() & 63;
  switch (field(k.c, 10, 2)) {
  case 0: return i_type(0x13, 5, rd, rd, shift);
  case 1: return i_type(0x13, 5, rd, rd, shift | 0x400);
  case 2: return i_type(0x13, 7, rd, rd, k.imm6());
  }
  if (field(k.c, 12, 1))
    return which > 1 ? 0 : r_type(0x3b, 0, which ? 0 : 0x20, rd, rd, rs2);
  const uint32_t funct3[] = {0, 4, 6, 7};
  return r_type(0x33, funct3[which], which ? 0 : 0x20, rd, rd, rs2);
}

static uint32_t quadrant1(compressed_t k, uint32_t funct3) {
  uint32_t rd = k.rd();
  switch (funct3) {
  case 0: return i_type(0x13, 0, rd, rd, k.imm6());
  case 1: return i_type(0x1b, 0, rd, rd, k.imm6());
  case 2: return i_type(0x13, 0, rd, 0, k.imm6());
  case 3:
    if (rd == 2)
      return i_type(0x13, 0, 2, 2, k.sign(k.part(12, 1, 9) | k.part(6, 1, 4) | k.part(5, 1, 6) |
                                          k.part(3, 2, 7) | k.part(2, 1, 5), 10));
    return uint32_t(k.imm6()) << 12 | rd << 7 | 0x37;
  case 4: return arithmetic(k);
  case 5:
    return jump(k.sign(k.part(12, 1, 11) | k.part(11, 1, 4) | k.part(9, 2, 8) | k.part(8, 1, 10) |
                       k.part(7, 1, 6) | k.part(6, 1, 7) | k.part(3, 3, 1) | k.part(2, 1, 5), 12));
  default:
    return branch(funct3 - 6, k.small_rs1(), k.sign(k.part(12, 1, 8) | k.part(10, 2, 3) |
                                                    k.part(5, 2, 6) | k.part(3, 2, 1) |
                                                    k.part(2, 1, 5), 9));
  }
}

static uint32_t quadrant2(compressed_t k, uint32_t funct3) {
  uint32_t rd = k.rd(), rs2 = k.rs2();
  uint32_t load_wide = k.part(12, 1, 5) | k.part(5, 2, 3) | k.part(2, 3, 6);
  uint32_t load_word = k.part(12, 1, 5) | k.part(4, 3, 2) | k.part(2, 2, 6);
  uint32_t store_wide = k.part(10, 3, 3) | k.part(7, 3, 6);
  switch (funct3) {
  case 0: return i_type(0x13, 1, rd, rd, k.imm6() & 63);
  case 1: return i_type(0x07, 3, rd, 2, load_wide);
  case 2: return i_type(0x03, 2, rd, 2, load_word);
  case 3: return i_type(0x03, 3, rd, 2, load_wide);
  case 4:
    if (!field(k.c, 12, 1))
      return rs2 ? r_type(0x33, 0, 0, rd, 0, rs2) : i_type(0x67, 0, 0, rd, 0);
    if (!rs2)
      return rd ? i_type(0x67, 0, 1, rd, 0) : 0x00100073;
    return r_type(0x33, 0, 0, rd, rd, rs2);
  case 5: return s_type(0x27, 3, 2, rs2, store_wide);
  case 6: return s_type(0x23, 2, 2, rs2, k.part(9, 4, 2) | k.part(7, 2, 6));
  default: return s_type(0x23, 3, 2, rs2, store_wide);
  }
}

uint32_t expand_compressed(uint16_t instruction) {
  compressed_t k{instruction};
  uint32_t funct3 = field(instruction, 13, 3);
  switch (instruction & 3) {
  case 0: return quadrant0(k, funct3);
  case 1: return quadrant1(k, funct3);
  default: return quadrant2(k, funct3);
  }
}
