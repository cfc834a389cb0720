// The compiled half of the Python package: checks of Triton IR, and what LLVM was linked in.
#include "lld/ELF/Linker.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Target/Target.h"
#include "mlir/IR/Operation.h"
#include <pybind11/pybind11.h>
#include <set>
#include <stdexcept>
namespace py = pybind11;

#define TRITON_BACKEND(name) void init_triton_##name(py::module &&m);
#include "backends.def"
#undef TRITON_BACKEND

static void raise(const std::string &message) { throw std::runtime_error(message); }

namespace {
/// Triton IR whose every operand is defined before it is used.
class Module {
public:
  explicit Module(std::string source) : text(std::move(source)) {
    std::set<std::string> defined;
    for (const mlir::Operation &op : mlir::parseOperations(text)) {
      if (op.name == "tt.func") {
        defined.clear();
        defined.insert(op.operands.begin(), op.operands.end());
        functions.append(mlir::functionName(op));
      }
      for (unsigned i = 0; i < op.operands.size(); ++i)
        if (!defined.count(op.operand(i)))
          mlir::unsupported(op, "use of undeclared SSA value name " + op.operand(i));
      defined.insert(op.result);
    }
  }
  std::string text;
  py::list functions;
};
} // namespace

static py::list linkedTargets() {
  py::list names;
  for (const llvm::Target *target :
       {&llvm::getX86Target(), &llvm::getNVPTXTarget(), &llvm::getAMDGPUTarget()})
    names.append(target->name);
  return names;
}

// Used by the AMD back end in the real package; here it only has to be linked.
static void link(const std::vector<std::string> &arguments) {
  lld::elf::Linker(lld::parseArguments(arguments)).run();
}

PYBIND11_MODULE(libtriton, m) {
  m.doc() = "tnpu-nix miniature, not triton";
  llvm::setFatalHandler(raise);
  py::module ir = m.def_submodule("ir");
  py::class_<Module>(ir, "module")
      .def(py::init<std::string>())
      .def_readonly("functions", &Module::functions)
      .def("__str__", [](const Module &self) { return self.text; });
  py::module llvm = m.def_submodule("llvm");
  llvm.attr("version") = LLVM_VERSION_STRING;
  llvm.def("targets", linkedTargets);
  llvm.def("link", [](py::list list) {
    std::vector<std::string> arguments;
    for (py::handle item : list)
      arguments.push_back(py::str(item));
    link(arguments);
  });
#define TRITON_BACKEND(name) init_triton_##name(m.def_submodule(#name));
#include "backends.def"
}
