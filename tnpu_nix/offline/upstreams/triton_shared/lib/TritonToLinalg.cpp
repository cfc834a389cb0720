// Elementwise kernels: what each value means decides what is written for the loads and stores.
#include "triton-shared/TritonToLinalg.h"
#include "mlir/IR/Operation.h"
#include <map>
using namespace mlir;

namespace triton_shared {
namespace {
enum class Axis { X, Y, Z };

enum class Kind {
  Pointer,  // text: the memref argument
  Scalar,   // text: an i32
  Range,    // 0, 1, ..., size-1
  Offsets,  // text: the index that Range starts from
  Pointers, // text: the memref argument, base: the index
  Mask,     // text: how many elements are inside
  Data      // text: a tensor
};

struct Meaning {
  Kind kind;
  std::string text, base, size;
};

class Conversion {
public:
  std::string run(const std::string &module);

private:
  Writer out;
  std::map<std::string, Meaning> values;
  std::string ids;

  void function(const Operation &op);
  void operation(const Operation &op);
  bool index(const Operation &op);
  Meaning addition(const Operation &op);
  Meaning mask(const Operation &op);
  Meaning load(const Operation &op);
  Meaning elementwise(const Operation &op);
  void store(const Operation &op);
  std::string view(const Meaning &pointers);

  const Meaning &operand(const Operation &op, unsigned index, Kind kind) {
    auto found = values.find(op.operand(index));
    if (found == values.end() || found->second.kind != kind)
      unsupported(op, "the miniature does not know this use of " + op.operand(index));
    return found->second;
  }
  bool is(const Operation &op, unsigned index, Kind kind) {
    auto found = values.find(op.operand(index));
    return found != values.end() && found->second.kind == kind;
  }
};
} // namespace

// Every axis has its case and nothing stands behind the switch, as in the real sources: clang takes
// that, GCC warns (return-type).
static unsigned argumentOf(Axis axis) {
  switch (axis) {
  case Axis::X: return 3;
  case Axis::Y: return 4;
  case Axis::Z: return 5;
  }
}

static std::string tensorOf(const std::string &size) { return "tensor<" + size + "xf32>"; }
static std::string bufferOf(const std::string &size) { return "memref<" + size + "xf32>"; }
static const char *const strided = ", strided<[1], offset: ?>>";

void Conversion::function(const Operation &op) {
  std::string list;
  unsigned number = 0;
  for (const FunctionArgument &argument : functionArguments(op)) {
    bool pointer = argument.type == "!tt.ptr<f32>";
    if (!pointer && argument.type != "i32")
      unsupported(op, "the miniature knows no arguments of type " + argument.type);
    std::string name = "%arg" + std::to_string(number++);
    values[argument.name] = {pointer ? Kind::Pointer : Kind::Scalar, name, "", ""};
    list += name + (pointer ? ": memref<*xf32>, " : ": i32, ");
  }
  ids = std::to_string(number);
  for (int i = 0; i < 6; ++i)
    list += (i ? ", %arg" : "%arg") + std::to_string(number++) + ": i32";
  out.text += "  func.func @" + functionName(op) + "(" + list + ") {\n";
}

// splat(i32) + range is where a block starts; pointer + that is what it reads or writes.
Meaning Conversion::addition(const Operation &op) {
  bool swapped = is(op, 0, Kind::Range);
  const Meaning &start = operand(op, swapped ? 1 : 0, Kind::Scalar);
  const Meaning &range = operand(op, swapped ? 0 : 1, Kind::Range);
  return {Kind::Offsets, out.value("arith.index_cast " + start.text + " : i32 to index"), "",
          range.size};
}

Meaning Conversion::mask(const Operation &op) {
  const Meaning &offsets = operand(op, 0, Kind::Offsets), &bound = operand(op, 1, Kind::Scalar);
  if (op.words[0] != "slt")
    unsupported(op, "the miniature knows masks of the form offsets < n only");
  std::string size = out.value("arith.constant " + offsets.size + " : index");
  std::string end = out.value("arith.addi " + offsets.text + ", " + size + " : index");
  std::string limit = out.value("arith.index_cast " + bound.text + " : i32 to index");
  std::string least = out.value("arith.minsi " + end + ", " + limit + " : index");
  std::string most = out.value("arith.maxsi " + least + ", " + offsets.text + " : index");
  return {Kind::Mask, out.value("arith.subi " + most + ", " + offsets.text + " : index"), "",
          offsets.size};
}

std::string Conversion::view(const Meaning &pointers) {
  return out.value("memref.reinterpret_cast " + pointers.text + " to offset: [" + pointers.base +
                   "], sizes: [" + pointers.size + "], strides: [1] : memref<*xf32> to memref<" +
                   pointers.size + "xf32" + strided);
}

Meaning Conversion::load(const Operation &op) {
  const Meaning &pointers = operand(op, 0, Kind::Pointers), &inside = operand(op, 1, Kind::Mask);
  std::string buffer = bufferOf(pointers.size), whole = "memref<" + pointers.size + "xf32" + strided,
              part = std::string("memref<?xf32") + strided, plain = "memref<?xf32, strided<[1]>>";
  std::string source = view(pointers), memory = out.value("memref.alloc() : " + buffer);
  std::string slice = "[0] [" + inside.text + "] [1] : ";
  std::string from = out.value("memref.subview " + source + slice + whole + " to " + part);
  std::string to = out.value("memref.subview " + memory + slice + buffer + " to " + plain);
  out.line("memref.copy " + from + ", " + to + " : " + part + " to " + plain);
  return {Kind::Data,
          out.value("bufferization.to_tensor " + memory + " restrict writable : " + buffer + " to " +
                    tensorOf(pointers.size)),
          "", pointers.size};
}

Meaning Conversion::elementwise(const Operation &op) {
  const Meaning &a = operand(op, 0, Kind::Data), &b = operand(op, 1, Kind::Data);
  std::string type = tensorOf(a.size), result = out.fresh(), value = out.fresh();
  out.line(result + " = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = "
                    "[\"parallel\"]} ins(" + a.text + ", " + b.text + " : " + type + ", " + type +
           ") outs(" + a.text + " : " + type + ") {");
  out.line("^bb0(%in: f32, %in_0: f32, %out: f32):");
  out.line("  " + value + " = " + op.name + " %in, %in_0 : f32");
  out.line("  linalg.yield " + value + " : f32");
  out.line("} -> " + type);
  return {Kind::Data, result, "", a.size};
}

void Conversion::store(const Operation &op) {
  const Meaning &pointers = operand(op, 0, Kind::Pointers), &data = operand(op, 1, Kind::Data),
                &inside = operand(op, 2, Kind::Mask);
  std::string part = std::string("memref<?xf32") + strided, slice = "[0] [" + inside.text + "] [1] : ";
  std::string target = view(pointers);
  std::string kept = out.value("tensor.extract_slice " + data.text + slice + tensorOf(data.size) +
                               " to tensor<?xf32>");
  std::string to = out.value("memref.subview " + target + slice + "memref<" + pointers.size + "xf32" +
                             strided + " to " + part);
  out.line("bufferization.materialize_in_destination " + kept + " in writable " + to +
           " : (tensor<?xf32>, " + part + ") -> ()");
}

bool Conversion::index(const Operation &op) {
  Meaning &result = values[op.result];
  if (op.name == "arith.constant" && op.after(":") == "i32") {
    result = {Kind::Scalar, out.value("arith.constant " + op.words[0] + " : i32"), "", ""};
  } else if (op.name == "tt.get_program_id") {
    const std::string &axis = op.words[0];
    unsigned number = argumentOf(axis == "x" ? Axis::X : axis == "y" ? Axis::Y : Axis::Z);
    result = {Kind::Scalar, "%arg" + std::to_string(std::stoi(ids) + number), "", ""};
  } else if ((op.name == "arith.muli" || op.name == "arith.addi" || op.name == "arith.subi") &&
             op.after(":") == "i32") {
    std::string a = operand(op, 0, Kind::Scalar).text, b = operand(op, 1, Kind::Scalar).text;
    result = {Kind::Scalar, out.value(op.name + " " + a + ", " + b + " : i32"), "", ""};
  } else if (op.name == "tt.make_range") {
    result = {Kind::Range, "", "", op.words[3]};
  } else if (op.name == "tt.splat") {
    result = is(op, 0, Kind::Pointer) ? operand(op, 0, Kind::Pointer) : operand(op, 0, Kind::Scalar);
  } else if (op.name == "arith.addi") {
    result = addition(op);
  } else if (op.name == "tt.addptr") {
    const Meaning &offsets = operand(op, 1, Kind::Offsets);
    result = {Kind::Pointers, operand(op, 0, Kind::Pointer).text, offsets.text, offsets.size};
  } else if (op.name == "arith.cmpi") {
    result = mask(op);
  } else {
    return false;
  }
  return true;
}

void Conversion::operation(const Operation &op) {
  if (op.name == "module" || op.name == "}")
    return;
  if (op.name == "tt.func")
    return function(op);
  if (op.name == "tt.store")
    return store(op);
  if (op.name == "tt.return")
    return out.line("return");
  if (op.name == "tt.load")
    values[op.result] = load(op);
  else if (op.name == "arith.addf" || op.name == "arith.subf" || op.name == "arith.mulf")
    values[op.result] = elementwise(op);
  else if (!index(op))
    unsupported(op, "the miniature does not lower this operation");
}

std::string Conversion::run(const std::string &module) {
  out.text = "#map = affine_map<(d0) -> (d0)>\nmodule {\n";
  for (const Operation &op : parseOperations(module))
    operation(op);
  return out.text + "  }\n}\n";
}

std::string convertTritonToLinalg(const std::string &module) { return Conversion().run(module); }
} // namespace triton_shared
