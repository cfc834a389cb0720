from .code_generator import CompilationError
from .compiler import ASTSource, CompiledKernel, compile, make_backend

__all__ = ["ASTSource", "CompilationError", "CompiledKernel", "compile", "make_backend"]
