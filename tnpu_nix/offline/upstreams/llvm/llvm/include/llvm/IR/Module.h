// LLVM IR as the miniature knows it: functions of blocks of instructions kept as words.
#pragma once
#include <cassert>
#include <string>
#include <vector>

namespace llvm {
struct Instruction {
  std::string result; // "%5", or empty
  std::vector<std::string> words; // opcode first
  std::string text;
  const std::string &word(unsigned index) const {
    assert(index < words.size() && "instruction is shorter than its opcode needs");
    return words[index];
  }
  const std::string &opcode() const { return word(0); }
  bool hasSideEffects() const { return result.empty() || opcode() == "call"; }
};

struct Block {
  std::string label; // "%bb1"; the entry block's is "%entry" when it has none
  std::vector<Instruction> instructions;
};

struct Argument {
  std::string type, name;
};

struct Function {
  std::string name, header;
  std::vector<Argument> arguments;
  std::vector<Block> blocks;
};

struct Module {
  std::vector<std::string> toplevel; // declarations and everything else outside of functions
  std::vector<Function> functions;
};

/// Parses and checks textual IR; a fault is fatal and names its line.
Module parseModule(const std::string &text);
std::string printModule(const Module &module);
/// Drops instructions whose results nobody uses; returns how many.
unsigned eliminateDeadCode(Function &function);
} // namespace llvm
