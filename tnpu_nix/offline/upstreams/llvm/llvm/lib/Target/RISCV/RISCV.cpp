// A code generator without register allocation: every value lives in a stack slot of eight bytes.
#include "Encoding.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Target/Target.h"
#include <elf.h>
#include <map>

namespace llvm {
using namespace riscv;

namespace {
using Words = std::vector<std::string>;

struct Generator {
  ObjectFile &object;
  const Function &function;
  std::map<std::string, int64_t> slots;   // value -> offset from sp
  std::map<std::string, int64_t> incoming; // phi -> slot that predecessors write
  std::map<std::string, int64_t> areas;   // alloca -> offset of its memory
  std::map<std::string, uint64_t> labels;
  std::vector<std::pair<uint64_t, std::string>> jumps;
  int64_t frame = 8; // the return address is at the bottom

  void emit(uint32_t word) { object.append32(word); }
  void layout();
  void prologue();
  void body();
  void patchJumps();
  void instruction(const Instruction &inst, const Block &block);
  void integerBinary(const Instruction &inst);
  void floatBinary(const Instruction &inst);
  void pointer(const Instruction &inst);
  void memory(const Instruction &inst);
  void call(const Instruction &inst);
  void branch(const Instruction &inst, const Block &block);
  void passPhis(const std::string &from, const std::string &to);
  void jump(const std::string &label);

  int64_t allocate(int64_t size) {
    frame += size;
    return frame - size;
  }
  void constant(int rd, int64_t value) {
    if (value != int32_t(value))
      fatal("RISCV: constant does not fit 32 bits: " + std::to_string(value));
    int64_t low = int64_t(uint64_t(value) << 52) >> 52, high = value - low;
    if (high)
      emit(lui(rd, high));
    if (low || !high)
      emit(high ? addiw(rd, rd, low) : addi(rd, zero, low));
  }
  // Leaves base and offset such that the offset fits an instruction; may use t2.
  std::pair<int, int64_t> address(int64_t offset) {
    if (offset < 2048)
      return {sp, offset};
    constant(t2, offset);
    emit(add(t2, t2, sp));
    return {t2, 0};
  }
  void load(int rd, const std::string &value) {
    if (value[0] != '%')
      return constant(rd, value == "true" ? 1 : value == "false" || value == "null" ? 0
                                                                  : std::stoll(value));
    auto [base, offset] = address(slots.at(value));
    emit(ld(rd, base, offset));
  }
  void store(int rs, const std::string &value) {
    auto [base, offset] = address(slots.at(value));
    emit(sd(rs, base, offset));
  }
};
} // namespace

static int64_t sizeOf(const std::string &type) {
  if (type == "float" || type == "i32")
    return 4;
  if (type == "i64" || type == "ptr" || type == "double")
    return 8;
  fatal("RISCV: type " + type + " is not known to the miniature");
}

void Generator::layout() {
  for (const Argument &argument : function.arguments)
    slots[argument.name] = allocate(8);
  for (const Block &block : function.blocks)
    for (const Instruction &inst : block.instructions) {
      if (inst.result.empty())
        continue;
      slots[inst.result] = allocate(8);
      if (inst.opcode() == "phi")
        incoming[inst.result] = allocate(8);
      if (inst.opcode() == "alloca") // alloca T, i64 N, align A
        areas[inst.result] = allocate((sizeOf(inst.word(1)) * std::stoll(inst.word(4)) + 7) & ~7);
    }
  frame = (frame + 15) & ~15;
}

void Generator::prologue() {
  constant(t0, -frame);
  emit(add(sp, sp, t0));
  emit(sd(ra, sp, 0));
  for (size_t i = 0; i < function.arguments.size(); ++i) {
    const Argument &argument = function.arguments[i];
    if (argument.type == "float" || argument.type == "double")
      fatal("RISCV: floating-point arguments are not known to the miniature");
    int source = a0 + int(i);
    if (i >= 8) {
      // psABI: arguments that found no register lie on the caller's stack, eight bytes each.
      auto [base, offset] = address(frame + 8 * (int64_t(i) - 8));
      emit(argument.type == "i32" ? lw(t0, base, offset) : ld(t0, base, offset));
      source = t0;
    }
    store(source, argument.name);
  }
}

void Generator::integerBinary(const Instruction &inst) {
  size_t i = 1;
  while (inst.word(i) == "nsw" || inst.word(i) == "nuw")
    ++i;
  const std::string &op = inst.opcode(), &type = inst.word(i);
  bool wide = sizeOf(type) == 8;
  load(t0, inst.word(i + 1));
  load(t1, inst.word(i + 3));
  emit(rType(op == "sub" ? 0x20 : op == "mul" ? 1 : 0, 0, wide ? 0x33 : 0x3b, t0, t0, t1));
  store(t0, inst.result);
}

void Generator::floatBinary(const Instruction &inst) {
  static const std::map<std::string, uint32_t> codes{
      {"fadd", 0x00}, {"fsub", 0x04}, {"fmul", 0x08}, {"fdiv", 0x0c}};
  if (inst.word(1) != "float")
    fatal("RISCV: arithmetic on " + inst.word(1) + " is not known to the miniature");
  for (auto [reg, word] : {std::pair{ft0, 2}, std::pair{ft1, 4}}) {
    auto [base, offset] = address(slots.at(inst.word(word)));
    emit(flw(reg, base, offset));
  }
  emit(rType(codes.at(inst.opcode()), 7, 0x53, ft0, ft0, ft1));
  auto [base, offset] = address(slots.at(inst.result));
  emit(fsw(ft0, base, offset));
}

// getelementptr T, ptr %base, i64 %index
void Generator::pointer(const Instruction &inst) {
  size_t i = 1;
  while (inst.word(i) == "inbounds" || inst.word(i) == "nuw")
    ++i;
  if (inst.words.size() != i + 7)
    fatal("RISCV: getelementptr with several indices:" + inst.text);
  load(t0, inst.word(i + 3));
  load(t1, inst.word(i + 6));
  emit(slli(t1, t1, sizeOf(inst.word(i)) == 8 ? 3 : 2));
  emit(add(t0, t0, t1));
  store(t0, inst.result);
}

// load T, ptr %p / store T %v, ptr %p
void Generator::memory(const Instruction &inst) {
  bool wide = sizeOf(inst.word(1)) == 8;
  if (inst.opcode() == "load") {
    load(t0, inst.word(4));
    emit(wide ? ld(t0, t0, 0) : lw(t0, t0, 0));
    store(t0, inst.result);
  } else {
    load(t0, inst.word(2));
    load(t1, inst.word(5));
    emit(wide ? sd(t0, t1, 0) : sw(t0, t1, 0));
  }
}

void Generator::call(const Instruction &inst) {
  size_t i = 1;
  while (inst.word(i)[0] != '@')
    ++i;
  std::string callee = inst.word(i).substr(1);
  Words arguments;
  for (size_t j = i + 1; j < inst.words.size(); ++j)
    if (inst.words[j] == "," || inst.words[j] == ")")
      arguments.push_back(inst.words[j - 1]);
  if (callee == "llvm.smin.i64" || callee == "llvm.smax.i64") {
    bool minimum = callee == "llvm.smin.i64";
    load(t0, arguments.at(0));
    load(t1, arguments.at(1));
    emit(minimum ? bge(t1, t0, 8) : bge(t0, t1, 8));
    emit(addi(t0, t1, 0));
    return store(t0, inst.result);
  }
  if (arguments.size() > 8 || callee.rfind("llvm.", 0) == 0)
    fatal("RISCV: this call is not known to the miniature:" + inst.text);
  for (size_t n = 0; n < arguments.size(); ++n)
    if (arguments[n] != "(")
      load(a0 + int(n), arguments[n]);
  object.relocations.push_back({object.text.size(), R_RISCV_CALL_PLT, "R_RISCV_CALL_PLT", callee});
  emit(auipc(ra));
  emit(jalr(ra, ra));
  if (!inst.result.empty())
    store(a0, inst.result);
}

void Generator::passPhis(const std::string &from, const std::string &to) {
  for (const Block &block : function.blocks) {
    if (block.label != to)
      continue;
    for (const Instruction &inst : block.instructions) {
      if (inst.opcode() != "phi")
        continue;
      for (size_t i = 2; i + 3 < inst.words.size(); ++i)
        if (inst.words[i] == "[" && inst.words[i + 3] == from) {
          load(t0, inst.words[i + 1]);
          auto [base, offset] = address(incoming.at(inst.result));
          emit(sd(t0, base, offset));
        }
    }
  }
}

void Generator::jump(const std::string &label) {
  jumps.emplace_back(object.text.size(), label);
  emit(0);
}

void Generator::branch(const Instruction &inst, const Block &block) {
  if (inst.word(1) == "label") {
    passPhis(block.label, inst.word(2));
    return jump(inst.word(2));
  }
  // br i1 %c, label %yes, label %no: both ways are jal, whose reach always suffices here.
  passPhis(block.label, inst.word(5));
  passPhis(block.label, inst.word(8));
  load(t0, inst.word(2));
  emit(beq(t0, zero, 8));
  jump(inst.word(5));
  jump(inst.word(8));
}

void Generator::instruction(const Instruction &inst, const Block &block) {
  const std::string &op = inst.opcode();
  if (op == "add" || op == "sub" || op == "mul") {
    integerBinary(inst);
  } else if (op == "fadd" || op == "fsub" || op == "fmul" || op == "fdiv") {
    floatBinary(inst);
  } else if (op == "sext" && inst.word(1) == "i32") {
    load(t0, inst.word(2)); // a slot holds an i32 sign-extended already
    store(t0, inst.result);
  } else if (op == "icmp" && inst.word(1) == "slt") {
    load(t0, inst.word(3));
    load(t1, inst.word(5));
    emit(slt(t0, t0, t1));
    store(t0, inst.result);
  } else if (op == "getelementptr") {
    pointer(inst);
  } else if (op == "load" || op == "store") {
    memory(inst);
  } else if (op == "alloca") {
    constant(t0, areas.at(inst.result));
    emit(add(t0, t0, sp));
    store(t0, inst.result);
  } else if (op == "phi") {
    auto [base, offset] = address(incoming.at(inst.result));
    emit(ld(t0, base, offset));
    store(t0, inst.result);
  } else if (op == "call") {
    call(inst);
  } else if (op == "br") {
    branch(inst, block);
  } else if (op == "ret" && inst.word(1) == "void") {
    emit(ld(ra, sp, 0));
    constant(t0, frame);
    emit(add(sp, sp, t0));
    emit(jalr(zero, ra));
  } else {
    fatal("RISCV: cannot select:" + inst.text);
  }
}

void Generator::body() {
  for (const Block &block : function.blocks) {
    labels[block.label] = object.text.size();
    for (const Instruction &inst : block.instructions)
      instruction(inst, block);
  }
}

void Generator::patchJumps() {
  for (const auto &[position, label] : jumps) {
    uint32_t word = jal(zero, int64_t(labels.at(label)) - int64_t(position));
    for (int byte = 0; byte < 4; ++byte)
      object.text[position + byte] = word >> 8 * byte;
  }
}

static ObjectFile generate(const Module &module, const TargetOptions &options) {
  for (const char *feature : {"m", "f", "d"})
    if (!options.features.count(feature))
      fatal(std::string("RISCV: the miniature needs -mattr=+m,+f,+d; missing: +") + feature);
  if (!options.abi.empty() && options.abi != "lp64d")
    fatal("RISCV: the miniature knows -target-abi lp64d only, not " + options.abi);
  ObjectFile object;
  object.machine = EM_RISCV;
  object.flags = EF_RISCV_FLOAT_ABI_DOUBLE | (options.features.count("c") ? EF_RISCV_RVC : 0);
  for (const Function &function : module.functions) {
    uint64_t start = object.text.size();
    Generator generator{object, function, {}, {}, {}, {}, {}};
    generator.layout();
    generator.prologue();
    generator.body();
    generator.patchJumps();
    object.symbols.push_back({function.name, start, object.text.size() - start});
  }
  return object;
}

const Target &getRISCVTarget() {
  static const Target target{"RISCV", {"riscv64"}, generate};
  return target;
}
} // namespace llvm
