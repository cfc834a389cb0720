#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"
#include <set>

namespace llvm {
static Function parseHeader(const std::string &line, const std::vector<std::string> &words) {
  Function function{"", line, {}, {{"%entry", {}}}};
  size_t i = 1;
  while (i < words.size() && words[i][0] != '@')
    ++i;
  if (i + 1 >= words.size() || words[i + 1] != "(")
    fatal("expected function name: " + line);
  function.name = words[i].substr(1);
  for (i += 2; i < words.size() && words[i] != ")"; ++i) {
    if (words[i][0] == '%')
      function.arguments.back().name = words[i];
    else if (words[i - 1] == "(" || words[i - 1] == ",")
      function.arguments.push_back({words[i], ""});
  }
  return function;
}

static Instruction parseInstruction(const std::string &line, std::vector<std::string> words) {
  Instruction instruction;
  instruction.text = line;
  if (words.size() > 2 && words[1] == "=") {
    instruction.result = words[0];
    words.erase(words.begin(), words.begin() + 2);
  }
  instruction.words = words;
  return instruction;
}

// A value may be used before its definition only through a phi or a later block, so the check is
// that every name is defined somewhere in the function.
static void verify(const Function &function) {
  std::set<std::string> defined;
  for (const Argument &argument : function.arguments)
    defined.insert(argument.name);
  for (const Block &block : function.blocks) {
    defined.insert(block.label);
    for (const Instruction &instruction : block.instructions)
      if (!instruction.result.empty() && !defined.insert(instruction.result).second)
        fatal("multiple definition of local value named '" + instruction.result + "'");
  }
  for (const Block &block : function.blocks) {
    for (const Instruction &instruction : block.instructions)
      for (const std::string &word : instruction.words)
        if (word[0] == '%' && !defined.count(word))
          fatal("use of undefined value '" + word + "' in:" + instruction.text);
    if (block.instructions.empty() || (block.instructions.back().opcode() != "br" &&
                                       block.instructions.back().opcode() != "ret"))
      fatal("block " + block.label + " of @" + function.name + " does not have a terminator");
  }
}

Module parseModule(const std::string &text) {
  Module module;
  bool inside = false;
  for (const std::string &line : splitLines(text)) {
    std::vector<std::string> words = tokenize(line);
    if (!inside && !words.empty() && words[0] == "define") {
      module.functions.push_back(parseHeader(line, words));
      inside = true;
    } else if (!inside) {
      if (!words.empty() && words[0] != "declare" && words[0] != "source_filename" &&
          words[0] != "target" && words[0] != "attributes" && words[0][0] != '!')
        fatal("expected top-level entity: " + line);
      module.toplevel.push_back(line);
    } else if (words.empty()) {
      continue;
    } else if (words[0] == "}") {
      verify(module.functions.back());
      inside = false;
    } else if (words.size() == 2 && words[1] == ":") {
      std::vector<Block> &blocks = module.functions.back().blocks;
      if (blocks.size() == 1 && blocks[0].instructions.empty())
        blocks.pop_back();
      blocks.push_back({"%" + words[0], {}});
    } else {
      module.functions.back().blocks.back().instructions.push_back(parseInstruction(line, words));
    }
  }
  if (inside)
    fatal("expected '}' at end of function");
  return module;
}

std::string printModule(const Module &module) {
  std::string text;
  for (const std::string &line : module.toplevel)
    text += line + "\n";
  for (const Function &function : module.functions) {
    text += function.header + "\n";
    for (const Block &block : function.blocks) {
      if (block.label != "%entry")
        text += "\n" + block.label.substr(1) + ":\n";
      for (const Instruction &instruction : block.instructions)
        text += instruction.text + "\n";
    }
    text += "}\n";
  }
  return text;
}

unsigned eliminateDeadCode(Function &function) {
  std::set<std::string> used;
  for (const Block &block : function.blocks)
    for (const Instruction &instruction : block.instructions)
      used.insert(instruction.words.begin(), instruction.words.end());
  unsigned removed = 0;
  for (Block &block : function.blocks) {
    std::vector<Instruction> kept;
    for (const Instruction &instruction : block.instructions)
      if (instruction.hasSideEffects() || used.count(instruction.result))
        kept.push_back(instruction);
    removed += block.instructions.size() - kept.size();
    block.instructions = kept;
  }
  return removed;
}
} // namespace llvm
