#include "mlir/IR/Operation.h"
#include "llvm/Support/CommandLine.h"
#include <algorithm>

namespace mlir {
bool Operation::has(const std::string &word) const {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string Operation::after(const std::string &word) const {
  auto found = std::find(words.begin(), words.end(), word);
  return found == words.end() || found + 1 == words.end() ? "" : found[1];
}

std::vector<Operation> parseOperations(const std::string &text) {
  std::vector<Operation> operations;
  unsigned number = 0;
  long depth = 0;
  for (const std::string &line : llvm::splitLines(text)) {
    std::vector<std::string> words = llvm::tokenize(line);
    ++number;
    if (words.empty() || words[0][0] == '#')
      continue;
    depth += std::count(words.begin(), words.end(), "{") - std::count(words.begin(), words.end(), "}");
    Operation operation;
    operation.line = number;
    if (words.size() > 2 && words[0][0] == '%' && words[1] == "=") {
      operation.result = words[0];
      words.erase(words.begin(), words.begin() + 2);
    }
    operation.name = words[0];
    operation.words.assign(words.begin() + 1, words.end());
    for (const std::string &word : operation.words)
      if (word[0] == '%')
        operation.operands.push_back(word);
    operations.push_back(operation);
  }
  if (operations.empty() || depth != 0)
    llvm::fatal("this is not a module of MLIR: " +
                std::string(operations.empty() ? "it is empty" : "its braces do not match"));
  return operations;
}

std::vector<FunctionArgument> functionArguments(const Operation &function) {
  std::vector<FunctionArgument> arguments;
  bool inType = false;
  int brackets = 0;
  for (const std::string &word : function.words) {
    if (word[0] == '%') {
      arguments.push_back({word, ""});
      inType = true;
      continue;
    }
    brackets += word == "<" ? 1 : word == ">" ? -1 : 0;
    if (inType && brackets == 0 && (word == "," || word == ")" || word == "loc" || word == "{"))
      inType = false;
    else if (inType && word != ":")
      arguments.back().type += word;
  }
  return arguments;
}

std::string functionName(const Operation &function) {
  for (const std::string &word : function.words)
    if (word[0] == '@')
      return word.substr(1);
  unsupported(function, "it has no name");
}

void unsupported(const Operation &operation, const std::string &why) {
  llvm::fatal("line " + std::to_string(operation.line) + ": '" + operation.name + "': " + why);
}

std::string Writer::value(const std::string &content) {
  std::string name = fresh();
  line(name + " = " + content);
  return name;
}
} // namespace mlir
