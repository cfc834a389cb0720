// The F and D extensions on the host's own IEEE 754 arithmetic, rounding to nearest.
#include "riscv/processor.h"
#include <cmath>
#include <limits>

struct float_unit_t {
  processor_t &p;
  uint32_t i;

  static constexpr uint64_t box = 0xffffffff00000000;
  template <typename T> T get(int from) const {
    uint64_t raw = p.f[field(i, from, 5)];
    if (sizeof(T) == 4 && (raw & box) != box)
      return std::numeric_limits<T>::quiet_NaN();
    T value;
    std::memcpy(&value, &raw, sizeof value);
    return value;
  }
  template <typename T> void put(T value) {
    uint64_t raw = sizeof(T) == 4 ? box : 0;
    std::memcpy(&raw, &value, sizeof value);
    p.f[field(i, 7, 5)] = raw;
  }
  template <typename T, typename Raw> void sign() {
    Raw a, b, top = Raw(1) << (sizeof(Raw) * 8 - 1);
    T x = get<T>(15), y = get<T>(20), result;
    std::memcpy(&a, &x, sizeof a);
    std::memcpy(&b, &y, sizeof b);
    uint32_t how = field(i, 12, 3);
    a = (a & ~top) | ((how == 0 ? b : how == 1 ? ~b : a ^ b) & top);
    std::memcpy(&result, &a, sizeof a);
    put(result);
  }
  template <typename T> void compare() {
    T a = get<T>(15), b = get<T>(20);
    uint32_t how = field(i, 12, 3);
    p.set(field(i, 7, 5), how == 0 ? a <= b : how == 1 ? a < b : a == b);
  }
  template <typename I, typename T> static I saturate(T value) {
    if (std::isnan(value) || value >= std::ldexp(T(1), std::numeric_limits<I>::digits))
      return std::numeric_limits<I>::max();
    return value <= T(std::numeric_limits<I>::min()) ? std::numeric_limits<I>::min() : I(value);
  }
  template <typename T> void to_integer() {
    T value = get<T>(15);
    value = field(i, 12, 3) == 1 ? std::trunc(value) : std::nearbyint(value);
    switch (field(i, 20, 5)) {
    case 0: return p.set(field(i, 7, 5), int64_t(saturate<int32_t>(value)));
    case 1: return p.set(field(i, 7, 5), int64_t(int32_t(saturate<uint32_t>(value))));
    case 2: return p.set(field(i, 7, 5), saturate<int64_t>(value));
    default: return p.set(field(i, 7, 5), saturate<uint64_t>(value));
    }
  }
  template <typename T> void from_integer() {
    uint64_t value = p.x[field(i, 15, 5)];
    switch (field(i, 20, 5)) {
    case 0: return put(T(int32_t(value)));
    case 1: return put(T(uint32_t(value)));
    case 2: return put(T(int64_t(value)));
    default: return put(T(value));
    }
  }
  template <typename T, typename Raw> void operate();
  template <typename T> void fused();
  void memory();
};

template <typename T, typename Raw> void float_unit_t::operate() {
  T a = get<T>(15), b = get<T>(20);
  switch (field(i, 27, 5)) {
  case 0x00: return put(a + b);
  case 0x01: return put(a - b);
  case 0x02: return put(a * b);
  case 0x03: return put(a / b);
  case 0x0b: return put(std::sqrt(a));
  case 0x04: return sign<T, Raw>();
  case 0x05: return put(field(i, 12, 3) ? std::fmax(a, b) : std::fmin(a, b));
  case 0x08: return sizeof(T) == 4 ? put(T(get<double>(15))) : put(T(get<float>(15)));
  case 0x14: return compare<T>();
  case 0x18: return to_integer<T>();
  case 0x1a: return from_integer<T>();
  case 0x1c: {
    if (field(i, 12, 3) != 0)
      throw illegal_instruction_t{i}; // fclass
    uint64_t raw = p.f[field(i, 15, 5)];
    return p.set(field(i, 7, 5), sizeof(T) == 4 ? uint64_t(int64_t(int32_t(raw))) : raw);
  }
  case 0x1e: {
    Raw raw = p.x[field(i, 15, 5)];
    T value;
    std::memcpy(&value, &raw, sizeof value);
    return put(value);
  }
  default: throw illegal_instruction_t{i};
  }
}

template <typename T> void float_unit_t::fused() {
  T a = get<T>(15), b = get<T>(20), c = get<T>(27);
  switch (field(i, 0, 7)) {
  case 0x43: return put(std::fma(a, b, c));
  case 0x47: return put(std::fma(a, b, -c));
  case 0x4b: return put(std::fma(-a, b, c));
  default: return put(std::fma(-a, b, -c));
  }
}

void float_unit_t::memory() {
  bool wide = field(i, 12, 3) == 3;
  if (field(i, 0, 7) == 0x07) {
    uint64_t address = p.x[field(i, 15, 5)] + immediate_i(i);
    p.f[field(i, 7, 5)] = wide ? p.mem.load<uint64_t>(address) : box | p.mem.load<uint32_t>(address);
  } else {
    uint64_t address = p.x[field(i, 15, 5)] + immediate_s(i), raw = p.f[field(i, 20, 5)];
    wide ? p.mem.store<uint64_t>(address, raw) : p.mem.store<uint32_t>(address, raw);
  }
}

void processor_t::floating(uint32_t i) {
  float_unit_t unit{*this, i};
  uint32_t opcode = field(i, 0, 7), format = field(i, 25, 2);
  if (opcode == 0x07 || opcode == 0x27)
    return unit.memory();
  bool is_fused = opcode == 0x43 || opcode == 0x47 || opcode == 0x4b || opcode == 0x4f;
  if (format > 1 || (opcode != 0x53 && !is_fused))
    throw illegal_instruction_t{i};
  if (is_fused)
    return format ? unit.fused<double>() : unit.fused<float>();
  return format ? unit.operate<double, uint64_t>() : unit.operate<float, uint32_t>();
}
