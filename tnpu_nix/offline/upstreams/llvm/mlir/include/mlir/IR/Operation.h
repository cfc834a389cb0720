// MLIR as the miniature knows it: one operation per line, regions as lines between braces.
#pragma once
#include <cassert>
#include <string>
#include <vector>

namespace mlir {
struct Operation {
  std::string result; // "%x", or empty
  std::string name;   // "arith.addi", "^bb1" for a block, "}" for the end of a region
  std::vector<std::string> operands; // every %value after the name, in order
  std::vector<std::string> words;    // every word after the name
  unsigned line = 0;

  const std::string &operand(unsigned index) const {
    assert(index < operands.size() && "operation has too few operands");
    return operands[index];
  }
  bool has(const std::string &word) const;
  /// The word that follows `word`, or "" when it is not there.
  std::string after(const std::string &word) const;
};

struct FunctionArgument {
  std::string name, type;
};

/// Parses a module; a fault is fatal and names its line.
std::vector<Operation> parseOperations(const std::string &text);
/// The arguments that a func.func, tt.func or llvm.func lists.
std::vector<FunctionArgument> functionArguments(const Operation &function);
/// The function's name without the @.
std::string functionName(const Operation &function);
[[noreturn]] void unsupported(const Operation &operation, const std::string &why);

/// Text of a new function: numbered results, one line per operation.
class Writer {
public:
  explicit Writer(unsigned first = 0) : next(first) {}
  std::string fresh() { return "%" + std::to_string(next++); }
  void line(const std::string &content) { text += indentation + content + "\n"; }
  /// Writes "%N = <content>" and returns "%N".
  std::string value(const std::string &content);
  std::string indentation = "    ";
  std::string text;

private:
  unsigned next;
};
} // namespace mlir
