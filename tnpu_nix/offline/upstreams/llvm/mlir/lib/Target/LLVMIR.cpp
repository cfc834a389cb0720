#include "mlir/Target/LLVMIR.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"
#include "mlir/IR/Operation.h"
#include <map>

namespace mlir {
namespace {
struct Edge {
  std::string from;
  std::vector<std::string> values;
};

class Translation {
public:
  explicit Translation(const std::vector<Operation> &operations) : ops(operations) {}
  std::string run();

private:
  const std::vector<Operation> &ops;
  Writer out;
  std::map<std::string, std::string> values;          // MLIR value -> LLVM value or literal
  std::map<std::string, std::vector<Edge>> edges;     // block -> who branches to it, with what
  void declare(const Operation &op);
  void define(size_t at);
  void nameValues(size_t at);
  void collectEdges(size_t at);
  void block(const Operation &op);
  std::string body(const Operation &op);
  std::string memory(const Operation &op);
  std::string call(const Operation &op);
  std::string control(const Operation &op);
  std::string value(const Operation &op, unsigned index) {
    auto found = values.find(op.operand(index));
    if (found == values.end())
      unsupported(op, "use of undeclared SSA value name " + op.operand(index));
    return found->second;
  }
};
} // namespace

static std::string llvmType(const std::string &type) {
  if (type == "!llvm.ptr")
    return "ptr";
  return type == "f32" ? "float" : type == "f64" ? "double" : type;
}

static std::string llvmLabel(const std::string &block) { return block.substr(1); }

static bool endsFunction(const Operation &op) { return op.name == "}"; }

void Translation::declare(const Operation &op) {
  std::string list;
  bool arguments = false;
  for (const std::string &word : op.words) {
    if (word == ")")
      arguments = false;
    else if (arguments)
      list += word == "," ? ", " : llvmType(word);
    if (word == "(")
      arguments = true;
  }
  std::string result = op.after("->").empty() ? "void" : llvmType(op.after("->"));
  out.text += "declare " + result + " @" + functionName(op) + "(" + list + ")\n\n";
}

// LLVM counts unnamed values in order of definition, the unnamed entry block among them.
void Translation::nameValues(size_t at) {
  values.clear();
  unsigned number = 0;
  for (const FunctionArgument &argument : functionArguments(ops[at]))
    values[argument.name] = "%" + std::to_string(number++);
  ++number;
  for (++at; !endsFunction(ops[at]); ++at) {
    const Operation &op = ops[at];
    if (op.name[0] == '^')
      for (const std::string &argument : op.operands)
        values[argument] = "%" + std::to_string(number++);
    else if (op.name == "llvm.mlir.constant")
      values[op.result] = op.words[1];
    else if (!op.result.empty())
      values[op.result] = "%" + std::to_string(number++);
  }
}

void Translation::collectEdges(size_t at) {
  edges.clear();
  std::string current = "entry";
  for (++at; !endsFunction(ops[at]); ++at) {
    const Operation &op = ops[at];
    if (op.name[0] == '^')
      current = llvmLabel(op.name);
    if (op.name != "llvm.br" && op.name != "llvm.cond_br")
      continue;
    for (const std::string &word : op.words)
      if (word[0] == '^') {
        Edge edge{current, {}};
        for (unsigned i = 0; op.name == "llvm.br" && i < op.operands.size(); ++i)
          edge.values.push_back(value(op, i));
        edges[word].push_back(edge);
      }
  }
}

void Translation::block(const Operation &op) {
  out.text += "\n" + llvmLabel(op.name) + ":\n";
  std::vector<FunctionArgument> arguments = functionArguments(op);
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string incoming;
    for (const Edge &edge : edges[op.name])
      incoming += (incoming.empty() ? "[ " : ", [ ") + edge.values.at(i) + ", %" + edge.from + " ]";
    out.line(values[arguments[i].name] + " = phi " + llvmType(arguments[i].type) + " " + incoming);
  }
}

std::string Translation::memory(const Operation &op) {
  if (op.name == "llvm.getelementptr")
    return "getelementptr " + llvmType(op.words.back()) + ", ptr " + value(op, 0) + ", i64 " +
           value(op, 1);
  if (op.name == "llvm.load")
    return "load " + llvmType(op.after("->")) + ", ptr " + value(op, 0);
  if (op.name == "llvm.store")
    return "store " + llvmType(op.after(":")) + " " + value(op, 0) + ", ptr " + value(op, 1);
  return "alloca " + llvmType(op.after("x")) + ", i64 " + value(op, 0);
}

// llvm.call @f(%a, %b) : (i64, !llvm.ptr) -> i64, and llvm.intr.* of the same form.
std::string Translation::call(const Operation &op) {
  std::string name = op.name == "llvm.call" ? functionName(op)
                                            : "llvm." + op.name.substr(10) + "." + op.after("->");
  std::string list, result = llvmType(op.after("->"));
  size_t type = 0;
  while (op.words[type] != ":")
    ++type;
  for (unsigned i = 0; i < op.operands.size(); ++i)
    list += (i ? ", " : "") + llvmType(op.words.at(type + 2 + 2 * i)) + " " + value(op, i);
  return "call " + (result == "(" ? "void" : result) + " @" + name + "(" + list + ")";
}

std::string Translation::control(const Operation &op) {
  if (op.name == "llvm.return")
    return "ret void";
  std::string labels;
  for (const std::string &word : op.words)
    if (word[0] == '^')
      labels += (labels.empty() ? "label %" : ", label %") + llvmLabel(word);
  return op.name == "llvm.br" ? "br " + labels : "br i1 " + value(op, 0) + ", " + labels;
}

std::string Translation::body(const Operation &op) {
  static const std::map<std::string, int> binary{{"llvm.add", 0},  {"llvm.sub", 0},
                                                 {"llvm.mul", 0},  {"llvm.fadd", 0},
                                                 {"llvm.fsub", 0}, {"llvm.fmul", 0},
                                                 {"llvm.fdiv", 0}};
  if (binary.count(op.name))
    return op.name.substr(5) + " " + llvmType(op.after(":")) + " " + value(op, 0) + ", " +
           value(op, 1);
  if (op.name == "llvm.sext")
    return "sext " + op.after(":") + " " + value(op, 0) + " to " + op.after("to");
  if (op.name == "llvm.icmp")
    return "icmp " + op.words[0].substr(1, op.words[0].size() - 2) + " " + op.after(":") + " " +
           value(op, 0) + ", " + value(op, 1);
  if (op.name == "llvm.getelementptr" || op.name == "llvm.load" || op.name == "llvm.store" ||
      op.name == "llvm.alloca")
    return memory(op);
  if (op.name == "llvm.call" || op.name.rfind("llvm.intr.", 0) == 0)
    return call(op);
  if (op.name == "llvm.br" || op.name == "llvm.cond_br" || op.name == "llvm.return")
    return control(op);
  unsupported(op, "cannot be converted to LLVM IR: missing translation for this operation");
}

void Translation::define(size_t at) {
  nameValues(at);
  collectEdges(at);
  std::string list;
  for (const FunctionArgument &argument : functionArguments(ops[at]))
    list += (list.empty() ? "" : ", ") + llvmType(argument.type) + " " + values[argument.name];
  out.text += "define void @" + functionName(ops[at]) + "(" + list + ") {\n";
  out.indentation = "  ";
  for (++at; !endsFunction(ops[at]); ++at) {
    const Operation &op = ops[at];
    if (op.name[0] == '^')
      block(op);
    else if (op.name != "llvm.mlir.constant")
      out.line((op.result.empty() ? "" : values[op.result] + " = ") + body(op));
  }
  out.text += "}\n";
}

std::string Translation::run() {
  out.text = "source_filename = \"LLVMDialectModule\"\n\n";
  bool intrinsics[2] = {};
  for (size_t at = 0; at < ops.size(); ++at) {
    const Operation &op = ops[at];
    intrinsics[0] |= op.name == "llvm.intr.smin";
    intrinsics[1] |= op.name == "llvm.intr.smax";
    if (op.name == "llvm.func" && op.words.back() != "{") {
      declare(op);
    } else if (op.name == "llvm.func") {
      define(at);
      while (!endsFunction(ops[at + 1]))
        ++at;
    } else if (op.name == "func.func" || op.name == "tt.func") {
      unsupported(op, "cannot be converted to LLVM IR: lower it to the LLVM dialect first");
    }
  }
  for (int i = 0; i < 2; ++i)
    if (intrinsics[i])
      out.text += std::string("\ndeclare i64 @llvm.") + (i ? "smax" : "smin") + ".i64(i64, i64)\n";
  return out.text;
}

std::string translateToLLVMIR(const std::string &module) {
  std::vector<Operation> operations = parseOperations(module);
  std::string text = Translation(operations).run();
  llvm::parseModule(text);
  return text;
}
} // namespace mlir
