import hashlib
import os
from pathlib import Path
from types import SimpleNamespace

from .._C.libtriton import ir
from ..backends import backends
from .code_generator import CompilationError, generate


class ASTSource:
    """A kernel with the types of its arguments and the values of its constants."""

    def __init__(self, fn, signature, constexprs=None, attrs=None):
        self.fn, self.signature, self.attrs = fn, signature, attrs or {}
        names = fn.arg_names
        self.constants = {names[k] if isinstance(k, int) else k[0] if isinstance(k, tuple) else k: v
                          for k, v in (constexprs or {}).items()}
        if isinstance(signature, str) or set(signature) != set(names):
            raise CompilationError(f"the signature must give a type to each of {', '.join(names)}")

    def make_ir(self):
        return ir.module(generate(self.fn, self.signature, self.constants))


class CompiledKernel:
    """The text or bytes of every stage, by the stage's name, in `asm`."""

    def __init__(self, src, metadata, asm):
        self.src, self.asm = src, asm
        self.metadata = SimpleNamespace(**metadata)
        self.name = metadata["name"]


def make_backend(target):
    fitting = [b.compiler for b in backends.values() if b.compiler.supports_target(target)]
    if len(fitting) != 1:
        raise RuntimeError(f"{len(fitting)} compatible backends for target ({target.backend})"
                           f" ({[b.__name__ for b in fitting]}). There should only be one.")
    return fitting[0](target)


def cache_folder(key):
    root = os.getenv("TRITON_CACHE_DIR")
    if not root:
        root = Path(os.getenv("TRITON_HOME") or Path.home(), ".triton", "cache")
    folder = Path(root, key)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def compile(src, target=None, options=None):
    if target is None:
        raise RuntimeError("0 active drivers ([]). There should only be one.")
    backend = make_backend(target)
    options = backend.parse_options(options or {})
    stages, metadata, asm = {}, {"name": src.fn.__name__, "target": target}, {}
    backend.add_stages(stages, options, None)
    module = src.make_ir()
    key = hashlib.sha256(f"{target}{module}".encode()).hexdigest()
    for name, stage in stages.items():
        module = stage(module, metadata)
        asm[name] = module if isinstance(module, bytes) else str(module)
        data = asm[name] if isinstance(module, bytes) else asm[name].encode()
        (cache_folder(key) / f"{metadata['name']}.{name}").write_bytes(data)
    return CompiledKernel(src, metadata, asm)
