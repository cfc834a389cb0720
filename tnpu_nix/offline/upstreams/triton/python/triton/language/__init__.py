"""The names that a kernel uses; the compiler knows them, Python does not run them."""


class constexpr:
    def __init__(self, value):
        self.value = value


def _only_in_kernels(name):
    def function(*_args, **_kwargs):
        raise ValueError(f"triton.language.{name}: did you forget to add @triton.jit?")

    function.__name__ = name
    return function


program_id = _only_in_kernels("program_id")
arange = _only_in_kernels("arange")
load = _only_in_kernels("load")
store = _only_in_kernels("store")
