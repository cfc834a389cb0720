// RV64 instruction words, by format (The RISC-V Instruction Set Manual, volume I, "RV32/64G
// Instruction Set Listings").
#pragma once
#include <cstdint>

namespace llvm::riscv {
enum Register { zero = 0, ra = 1, sp = 2, t0 = 5, t1 = 6, t2 = 7, a0 = 10 };
enum FloatRegister { ft0 = 0, ft1 = 1 };

constexpr uint32_t rType(uint32_t funct7, uint32_t funct3, uint32_t opcode, int rd, int rs1,
                         int rs2) {
  return funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode;
}
constexpr uint32_t iType(uint32_t funct3, uint32_t opcode, int rd, int rs1, int64_t immediate) {
  return uint32_t(immediate & 0xfff) << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode;
}
constexpr uint32_t sType(uint32_t funct3, uint32_t opcode, int rs1, int rs2, int64_t immediate) {
  return uint32_t(immediate >> 5 & 0x7f) << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 |
         uint32_t(immediate & 0x1f) << 7 | opcode;
}
constexpr uint32_t bType(uint32_t funct3, int rs1, int rs2, int64_t offset) {
  return uint32_t(offset >> 12 & 1) << 31 | uint32_t(offset >> 5 & 0x3f) << 25 | rs2 << 20 |
         rs1 << 15 | funct3 << 12 | uint32_t(offset >> 1 & 0xf) << 8 |
         uint32_t(offset >> 11 & 1) << 7 | 0x63;
}
constexpr uint32_t jal(int rd, int64_t offset) {
  return uint32_t(offset >> 20 & 1) << 31 | uint32_t(offset >> 1 & 0x3ff) << 21 |
         uint32_t(offset >> 11 & 1) << 20 | uint32_t(offset >> 12 & 0xff) << 12 | rd << 7 | 0x6f;
}

constexpr uint32_t addi(int rd, int rs1, int64_t imm) { return iType(0, 0x13, rd, rs1, imm); }
constexpr uint32_t addiw(int rd, int rs1, int64_t imm) { return iType(0, 0x1b, rd, rs1, imm); }
constexpr uint32_t slli(int rd, int rs1, int shift) { return iType(1, 0x13, rd, rs1, shift); }
constexpr uint32_t lui(int rd, int64_t value) { return uint32_t(value & 0xfffff000) | rd << 7 | 0x37; }
constexpr uint32_t add(int rd, int rs1, int rs2) { return rType(0, 0, 0x33, rd, rs1, rs2); }
constexpr uint32_t slt(int rd, int rs1, int rs2) { return rType(0, 2, 0x33, rd, rs1, rs2); }
constexpr uint32_t ld(int rd, int rs1, int64_t imm) { return iType(3, 0x03, rd, rs1, imm); }
constexpr uint32_t lw(int rd, int rs1, int64_t imm) { return iType(2, 0x03, rd, rs1, imm); }
constexpr uint32_t sd(int rs2, int rs1, int64_t imm) { return sType(3, 0x23, rs1, rs2, imm); }
constexpr uint32_t sw(int rs2, int rs1, int64_t imm) { return sType(2, 0x23, rs1, rs2, imm); }
constexpr uint32_t flw(int rd, int rs1, int64_t imm) { return iType(2, 0x07, rd, rs1, imm); }
constexpr uint32_t fsw(int rs2, int rs1, int64_t imm) { return sType(2, 0x27, rs1, rs2, imm); }
constexpr uint32_t beq(int rs1, int rs2, int64_t offset) { return bType(0, rs1, rs2, offset); }
constexpr uint32_t bge(int rs1, int rs2, int64_t offset) { return bType(5, rs1, rs2, offset); }
constexpr uint32_t auipc(int rd) { return rd << 7 | 0x17; }
constexpr uint32_t jalr(int rd, int rs1) { return iType(0, 0x67, rd, rs1, 0); }
} // namespace llvm::riscv
