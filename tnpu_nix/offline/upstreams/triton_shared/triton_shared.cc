// What libtriton offers as triton._C.libtriton.triton_shared.
#include "triton-shared/TritonToLinalg.h"
#include <pybind11/pybind11.h>
namespace py = pybind11;

void init_triton_triton_shared(py::module &&m) {
  m.attr("version") = TRITON_SHARED_VERSION;
  m.def("convert_triton_to_linalg", triton_shared::convertTritonToLinalg);
}
