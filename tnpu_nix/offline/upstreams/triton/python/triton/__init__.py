"""tnpu-nix miniature, not triton: compiles elementwise float32 kernels."""

__version__ = "3.6.0"

from . import language
from .compiler import CompilationError, compile
from .runtime import JITFunction, jit

__all__ = ["CompilationError", "JITFunction", "compile", "jit", "language"]
