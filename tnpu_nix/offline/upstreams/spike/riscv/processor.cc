#include "riscv/processor.h"

static int64_t immediate_b(uint32_t i) {
  return int64_t(int32_t(i) >> 31) * 4096 + (field(i, 7, 1) << 11 | field(i, 25, 6) << 5 |
                                             field(i, 8, 4) << 1);
}
static int64_t immediate_j(uint32_t i) {
  return int64_t(int32_t(i) >> 31) * (1 << 20) +
         (field(i, 12, 8) << 12 | field(i, 20, 1) << 11 | field(i, 21, 10) << 1);
}

void processor_t::load(uint32_t i) {
  uint64_t address = x[field(i, 15, 5)] + immediate_i(i), value;
  switch (field(i, 12, 3)) {
  case 0: value = int64_t(mem.load<int8_t>(address)); break;
  case 1: value = int64_t(mem.load<int16_t>(address)); break;
  case 2: value = int64_t(mem.load<int32_t>(address)); break;
  case 3: value = mem.load<uint64_t>(address); break;
  case 4: value = mem.load<uint8_t>(address); break;
  case 5: value = mem.load<uint16_t>(address); break;
  case 6: value = mem.load<uint32_t>(address); break;
  default: throw illegal_instruction_t{i};
  }
  set(field(i, 7, 5), value);
}

void processor_t::store(uint32_t i) {
  uint64_t address = x[field(i, 15, 5)] + immediate_s(i), value = x[field(i, 20, 5)];
  switch (field(i, 12, 3)) {
  case 0: return mem.store<uint8_t>(address, value);
  case 1: return mem.store<uint16_t>(address, value);
  case 2: return mem.store<uint32_t>(address, value);
  case 3: return mem.store<uint64_t>(address, value);
  default: throw illegal_instruction_t{i};
  }
}

bool processor_t::branch(uint32_t i) const {
  uint64_t a = x[field(i, 15, 5)], b = x[field(i, 20, 5)];
  switch (field(i, 12, 3)) {
  case 0: return a == b;
  case 1: return a != b;
  case 4: return int64_t(a) < int64_t(b);
  case 5: return int64_t(a) >= int64_t(b);
  case 6: return a < b;
  case 7: return a >= b;
  default: throw illegal_instruction_t{i};
  }
}

// Division as the M extension defines it: no trap, fixed results for zero and overflow.
template <typename S, typename U> static U multiply_divide(uint32_t funct3, U a, U b) {
  bool overflow = S(b) == -1 && a == U(1) << (sizeof(U) * 8 - 1);
  switch (funct3) {
  case 0: return a * b;
  case 1: return U(__int128(S(a)) * S(b) >> sizeof(U) * 8);
  case 2: return U(__int128(S(a)) * b >> sizeof(U) * 8);
  case 3: return U((unsigned __int128)(a) * b >> sizeof(U) * 8);
  case 4: return b == 0 ? U(-1) : overflow ? a : U(S(a) / S(b));
  case 5: return b == 0 ? U(-1) : a / b;
  case 6: return b == 0 ? a : overflow ? 0 : U(S(a) % S(b));
  default: return b == 0 ? a : a % b;
  }
}

uint64_t processor_t::integer(uint32_t i, uint64_t a, uint64_t b, bool is_register) const {
  if (is_register && field(i, 25, 7) == 1)
    return multiply_divide<int64_t, uint64_t>(field(i, 12, 3), a, b);
  bool alternate = field(i, 30, 1);
  switch (field(i, 12, 3)) {
  case 0: return is_register && alternate ? a - b : a + b;
  case 1: return a << (b & 63);
  case 2: return int64_t(a) < int64_t(b);
  case 3: return a < b;
  case 4: return a ^ b;
  case 5: return alternate ? uint64_t(int64_t(a) >> (b & 63)) : a >> (b & 63);
  case 6: return a | b;
  default: return a & b;
  }
}

uint64_t processor_t::integer_word(uint32_t i, uint64_t a, uint64_t b, bool is_register) const {
  uint32_t x32 = a, y32 = b;
  if (is_register && field(i, 25, 7) == 1)
    return int64_t(int32_t(multiply_divide<int32_t, uint32_t>(field(i, 12, 3), x32, y32)));
  bool alternate = field(i, 30, 1);
  switch (field(i, 12, 3)) {
  case 0: return int64_t(int32_t(is_register && alternate ? x32 - y32 : x32 + y32));
  case 1: return int64_t(int32_t(x32 << (b & 31)));
  case 5: return int64_t(alternate ? int32_t(x32) >> (b & 31) : int32_t(x32 >> (b & 31)));
  default: throw illegal_instruction_t{i};
  }
}

// Control and status registers: fcsr and the counters are real, the rest read as zero.
void processor_t::system(uint32_t i) {
  uint32_t csr = field(i, 20, 12), funct3 = field(i, 12, 3);
  if (funct3 == 0 || funct3 == 4)
    throw illegal_instruction_t{i};
  uint64_t old = csr == 3 ? fcsr : csr == 0xc00 || csr == 0xc02 ? instret : 0;
  uint64_t operand = funct3 & 4 ? field(i, 15, 5) : x[field(i, 15, 5)];
  if (csr == 3)
    fcsr = (funct3 & 3) == 1 ? operand : (funct3 & 3) == 2 ? old | operand : old & ~operand;
  set(field(i, 7, 5), old);
}

bool processor_t::execute(uint32_t i, uint64_t next) {
  uint64_t here = pc, a = x[field(i, 15, 5)], b = x[field(i, 20, 5)];
  unsigned rd = field(i, 7, 5);
  pc = next;
  switch (field(i, 0, 7)) {
  case 0x03: load(i); break;
  case 0x0f: break; // fences order nothing on one hart
  case 0x13: set(rd, integer(i, a, immediate_i(i), false)); break;
  case 0x17: set(rd, here + int64_t(int32_t(i & 0xfffff000))); break;
  case 0x1b: set(rd, integer_word(i, a, immediate_i(i), false)); break;
  case 0x23: store(i); break;
  case 0x33: set(rd, integer(i, a, b, true)); break;
  case 0x37: set(rd, int64_t(int32_t(i & 0xfffff000))); break;
  case 0x3b: set(rd, integer_word(i, a, b, true)); break;
  case 0x63: pc = branch(i) ? here + immediate_b(i) : next; break;
  case 0x67:
    pc = (a + immediate_i(i)) & ~uint64_t(1);
    set(rd, next);
    break;
  case 0x6f:
    pc = here + immediate_j(i);
    set(rd, next);
    break;
  case 0x73:
    if (i == 0x73)
      return true;
    system(i);
    break;
  default: floating(i);
  }
  return false;
}

bool processor_t::step() {
  uint32_t instruction = mem.load<uint16_t>(pc, "fetch");
  uint64_t next = pc + 2;
  if ((instruction & 3) == 3) {
    instruction |= uint32_t(mem.load<uint16_t>(next, "fetch")) << 16;
    next += 2;
  } else {
    uint32_t compressed = instruction;
    instruction = expand_compressed(compressed);
    if (!instruction)
      throw illegal_instruction_t{compressed};
  }
  ++instret;
  return execute(instruction, next);
}
