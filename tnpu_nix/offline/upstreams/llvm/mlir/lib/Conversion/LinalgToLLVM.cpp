#include "llvm/Support/CommandLine.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/IR/Operation.h"
#include <cctype>
#include <map>

namespace mlir {
namespace {
/// A one-dimensional memref, or the tensor that lives in it, as values of the LLVM dialect.
struct Buffer {
  std::string pointer, offset, size;
};

class Lowering {
public:
  explicit Lowering(const std::vector<Operation> &operations) : ops(operations) {}
  std::string run();

private:
  const std::vector<Operation> &ops;
  size_t at = 0;
  unsigned blocks = 0;
  Writer out;
  std::map<std::string, std::string> scalars;
  std::map<std::string, std::string> unranked; // memref<*xf32> argument -> pointer to descriptor
  std::map<std::string, Buffer> buffers;

  void function(const Operation &op);
  void operation(const Operation &op);
  bool scalar(const Operation &op);
  bool memref(const Operation &op);
  void generic(const Operation &op);
  std::string loopBody(const std::map<std::string, Buffer> &inputs, const std::string &index);
  Buffer allocate(const Operation &op, const std::string &type);
  std::string descriptor(const Buffer &buffer);
  void copy(const Buffer &from, const Buffer &to);
  bool usedLater(const std::string &value, size_t from) const;

  std::string constant(const std::string &number, const std::string &type = "i64") {
    return out.value("llvm.mlir.constant(" + number + " : " + type + ") : " + type);
  }
  std::string element(const std::string &base, const std::string &index, const std::string &type) {
    return out.value("llvm.getelementptr " + base + "[" + index + "] : (!llvm.ptr, i64) -> !llvm.ptr, " +
                     type);
  }
  template <typename Map> typename Map::mapped_type find(const Map &map, const Operation &op,
                                                         const std::string &name) {
    auto found = map.find(name);
    if (found == map.end())
      unsupported(op, "the miniature cannot trace " + name);
    return found->second;
  }
};
} // namespace

// The N of the first "Nx" in a shaped type such as memref<64xf32>.
static std::string staticSize(const Operation &op) {
  for (const std::string &word : op.words)
    if (word.find('x') != std::string::npos && std::isdigit(word[0])) {
      if (word.substr(word.find('x') + 1) != "f32")
        unsupported(op, "the miniature knows one dimension of f32 only");
      return word.substr(0, word.find('x'));
    }
  unsupported(op, "expected a static shape");
}

bool Lowering::usedLater(const std::string &value, size_t from) const {
  for (size_t i = from; i < ops.size(); ++i)
    for (const std::string &operand : ops[i].operands)
      if (operand == value)
        return true;
  return false;
}

void Lowering::function(const Operation &op) {
  std::string list;
  unsigned number = 0;
  for (const FunctionArgument &argument : functionArguments(op)) {
    auto next = [&](const std::string &type) {
      std::string name = "%arg" + std::to_string(number++);
      list += (list.empty() ? "" : ", ") + name + ": " + type;
      return name;
    };
    if (argument.type == "memref<*xf32>") {
      next("i64"); // the rank; always 1 here
      unranked[argument.name] = next("!llvm.ptr");
    } else if (argument.type == "i32") {
      scalars[argument.name] = next("i32");
    } else {
      unsupported(op, "the miniature knows no arguments of type " + argument.type);
    }
  }
  out.indentation = "  ";
  out.line("llvm.func @" + functionName(op) + "(" + list + ") {");
  out.indentation = "    ";
}

bool Lowering::scalar(const Operation &op) {
  static const std::map<std::string, std::string> binary{
      {"arith.addi", "llvm.add"},          {"arith.subi", "llvm.sub"},
      {"arith.muli", "llvm.mul"},          {"arith.minsi", "llvm.intr.smin"},
      {"arith.maxsi", "llvm.intr.smax"},   {"arith.addf", "llvm.fadd"},
      {"arith.subf", "llvm.fsub"},         {"arith.mulf", "llvm.fmul"},
      {"arith.divf", "llvm.fdiv"}};
  std::string type = op.words.empty() ? "" : op.after(":");
  if (type == "index")
    type = "i64";
  auto known = binary.find(op.name);
  if (known != binary.end()) {
    std::string a = find(scalars, op, op.operand(0)), b = find(scalars, op, op.operand(1));
    scalars[op.result] =
        known->second.find("intr") == std::string::npos
            ? out.value(known->second + " " + a + ", " + b + " : " + type)
            : out.value(known->second + "(" + a + ", " + b + ") : (i64, i64) -> i64");
  } else if (op.name == "arith.constant") {
    scalars[op.result] = constant(op.words[0], type);
  } else if (op.name == "arith.index_cast" && op.after("to") == "index") {
    scalars[op.result] = out.value("llvm.sext " + find(scalars, op, op.operand(0)) + " : i32 to i64");
  } else {
    return false;
  }
  return true;
}

Buffer Lowering::allocate(const Operation &op, const std::string &size) {
  std::string bytes = constant(std::to_string(std::stol(size) * 4));
  if (op.has("*"))
    unsupported(op, "expected a ranked type");
  return {out.value("llvm.call @malloc(" + bytes + ") : (i64) -> !llvm.ptr"), constant("0"),
          constant(size)};
}

bool Lowering::memref(const Operation &op) {
  if (op.name == "memref.reinterpret_cast") {
    // {allocated, aligned, ...}: the data is where `aligned` points.
    std::string field = element(find(unranked, op, op.operand(0)), constant("1"), "!llvm.ptr");
    buffers[op.result] = {out.value("llvm.load " + field + " : !llvm.ptr -> !llvm.ptr"),
                          find(scalars, op, op.operand(1)), constant(staticSize(op))};
  } else if (op.name == "memref.alloc") {
    buffers[op.result] = allocate(op, staticSize(op));
  } else if (op.name == "memref.subview" || op.name == "tensor.extract_slice") {
    Buffer buffer = find(buffers, op, op.operand(0));
    if (op.after("[") != "0")
      unsupported(op, "the miniature knows slices from 0 only");
    buffer.size = find(scalars, op, op.operand(1));
    buffers[op.result] = buffer;
  } else if (op.name == "bufferization.to_tensor") {
    buffers[op.result] = find(buffers, op, op.operand(0));
  } else if (op.name == "memref.copy" || op.name == "bufferization.materialize_in_destination") {
    copy(find(buffers, op, op.operand(0)), find(buffers, op, op.operand(1)));
  } else {
    return false;
  }
  return true;
}

std::string Lowering::descriptor(const Buffer &buffer) {
  std::string memory = out.value("llvm.alloca " + constant("5") + " x i64 : (i64) -> !llvm.ptr");
  const std::string one = constant("1");
  const std::pair<std::string, const char *> fields[] = {{buffer.pointer, "!llvm.ptr"},
                                                         {buffer.pointer, "!llvm.ptr"},
                                                         {buffer.offset, "i64"},
                                                         {buffer.size, "i64"},
                                                         {one, "i64"}};
  int index = 0;
  for (const auto &[value, type] : fields) {
    std::string field = element(memory, constant(std::to_string(index++)), "i64");
    out.line("llvm.store " + value + ", " + field + " : " + type + ", !llvm.ptr");
  }
  std::string view = out.value("llvm.alloca " + constant("2") + " x i64 : (i64) -> !llvm.ptr");
  out.line("llvm.store " + one + ", " + view + " : i64, !llvm.ptr");
  std::string field = element(view, one, "i64");
  out.line("llvm.store " + memory + ", " + field + " : !llvm.ptr, !llvm.ptr");
  return view;
}

void Lowering::copy(const Buffer &from, const Buffer &to) {
  std::string source = descriptor(from), destination = descriptor(to);
  out.line("llvm.call @memrefCopy(" + constant("4") + ", " + source + ", " + destination +
           ") : (i64, !llvm.ptr, !llvm.ptr) -> ()");
}

// Lowers the region's operations up to its yield; returns the value that is yielded.
std::string Lowering::loopBody(const std::map<std::string, Buffer> &inputs,
                               const std::string &index) {
  for (const auto &[name, buffer] : inputs) {
    std::string place = element(buffer.pointer, out.value("llvm.add " + buffer.offset + ", " + index +
                                                          " : i64"), "f32");
    scalars[name] = out.value("llvm.load " + place + " : !llvm.ptr -> f32");
  }
  for (++at; ops[at].name != "linalg.yield"; ++at)
    if (!scalar(ops[at]))
      unsupported(ops[at], "the miniature lowers arith inside linalg.generic only");
  std::string result = find(scalars, ops[at], ops[at].operand(0));
  while (ops[at].name != "}")
    ++at;
  return result;
}

void Lowering::generic(const Operation &op) {
  size_t inputs = op.operands.size() - 1;
  const Operation &header = ops[++at];
  if (header.name != "^bb0" || header.operands.size() != inputs + 1 || !op.has("outs"))
    unsupported(op, "the miniature knows linalg.generic with one result only");
  std::map<std::string, Buffer> arguments;
  for (size_t i = 0; i < inputs; ++i)
    arguments[header.operand(i)] = find(buffers, op, op.operand(i));
  // The result may take the place of the tensor it is written over, if nobody reads that again.
  const std::string &over = op.operand(inputs);
  Buffer result = usedLater(over, at) ? allocate(op, staticSize(op)) : find(buffers, op, over);

  std::string label = "^bb" + std::to_string(blocks + 1), body = "^bb" + std::to_string(blocks + 2),
              end = "^bb" + std::to_string(blocks + 3);
  blocks += 3;
  std::string start = constant("0"), step = constant("1"), index = out.fresh();
  out.line("llvm.br " + label + "(" + start + " : i64)");
  out.indentation = "  ";
  out.line(label + "(" + index + ": i64):");
  out.indentation = "    ";
  std::string more = out.value("llvm.icmp \"slt\" " + index + ", " + result.size + " : i64");
  out.line("llvm.cond_br " + more + ", " + body + ", " + end);
  out.line(body + ":");
  std::string yielded = loopBody(arguments, index);
  std::string position = out.value("llvm.add " + result.offset + ", " + index + " : i64");
  std::string place = element(result.pointer, position, "f32");
  out.line("llvm.store " + yielded + ", " + place + " : f32, !llvm.ptr");
  std::string next = out.value("llvm.add " + index + ", " + step + " : i64");
  out.line("llvm.br " + label + "(" + next + " : i64)");
  out.line(end + ":");
  buffers[op.result] = result;
}

void Lowering::operation(const Operation &op) {
  if (op.name == "func.func")
    return function(op);
  if (op.name == "linalg.generic")
    return generic(op);
  if (op.name == "return" || op.name == "func.return")
    return out.line("llvm.return");
  if (op.name == "module") {
    out.text += "module {\n  llvm.func @malloc(i64) -> !llvm.ptr\n"
                "  llvm.func @memrefCopy(i64, !llvm.ptr, !llvm.ptr)\n";
  } else if (op.name == "}") {
    out.text += at + 1 == ops.size() ? "}\n" : "  }\n";
  } else if (!scalar(op) && !memref(op)) {
    unsupported(op, "the miniature does not lower this operation");
  }
}

std::string Lowering::run() {
  for (; at < ops.size(); ++at)
    operation(ops[at]);
  return out.text;
}

std::string lowerLinalgToLLVM(const std::string &module) {
  std::vector<Operation> operations = parseOperations(module);
  return Lowering(operations).run();
}
} // namespace mlir
