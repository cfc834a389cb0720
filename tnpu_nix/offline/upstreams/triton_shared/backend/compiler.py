"""The CPU back end: triton-shared-opt and LLVM's tools as subprocesses, one stage after another."""

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from triton.backends.compiler import BaseBackend

LOWERING = """
convert-linalg-to-affine-loops empty-tensor-to-alloc-tensor
one-shot-bufferize=allow-return-allocs-from-loops=true lower-affine convert-linalg-to-loops
expand-strided-metadata convert-scf-to-cf convert-arith-to-llvm convert-math-to-llvm
convert-complex-to-llvm convert-vector-to-llvm convert-index-to-llvm memref-expand
finalize-memref-to-llvm convert-func-to-llvm convert-cf-to-llvm lower-affine convert-arith-to-llvm
reconcile-unrealized-casts mlir-print-debuginfo
"""


def required(variable):
    value = os.getenv(variable, "")
    if not value:
        raise Exception(f"{variable} is not set.")
    return value


def llvm_tool(name):
    return os.path.join(required("LLVM_BINARY_DIR"), name)


def run_tool(program, source, suffix, *options):
    """The bytes that `program <options>` makes of the text `source`."""
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "in.mlir"), Path(folder, f"out{suffix}")
        given.write_text(source)
        subprocess.check_call([program, str(given), *options, "-o", str(made)])
        return made.read_bytes()


def to_linalg(module):
    return run_tool(required("TRITON_SHARED_OPT_PATH"), str(module), ".mlir",
                    "--triton-to-linalg-experimental", "--mlir-print-debuginfo").decode()


def to_llvm(linalg):
    lowered = run_tool(llvm_tool("mlir-opt"), linalg, ".mlir", *(f"--{p}" for p in LOWERING.split()))
    return run_tool(llvm_tool("mlir-translate"), lowered.decode(), ".ll", "--mlir-to-llvmir").decode()


def to_object(llir, metadata):
    names = re.findall(r"define void @(\w+)\(", llir)
    assert len(names) == 1, "expected one kernel"
    metadata["name"] = names[0]
    return run_tool(llvm_tool("llc"), llir, ".o", "-filetype=obj", "-relocation-model=pic")


@dataclass(frozen=True)
class CPUOptions:
    debug: bool = False
    num_warps: int = 0


class CPUBackend(BaseBackend):
    binary_ext = "obj"

    @staticmethod
    def supports_target(target):
        return target.backend == "cpu"

    def parse_options(self, options):
        return CPUOptions(**{k: v for k, v in options.items() if k in CPUOptions.__dataclass_fields__})

    def add_stages(self, stages, options, language):
        stages["ttir"] = lambda module, metadata: module
        stages["ttsharedir"] = lambda module, metadata: to_linalg(module)
        stages["llir"] = lambda linalg, metadata: to_llvm(linalg)
        stages["obj"] = to_object
