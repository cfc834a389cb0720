"""The lab's GitHub workflow, rendered from pins.toml."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import jinja2

from tnpu_nix import render
from tnpu_nix.pins import Toolchain
from tnpu_nix.place import WORKFLOW as WORKFLOW

# In the order of their builds; each fits a walltime of its own. The last is what `image ensure`
# builds, and with it all that is left.
_PARTS = ("llvm", "mlir", "lld", "triton", "tnpu-image-stream")


@dataclass(frozen=True)
class _SlurmOption:
    """An option of srun, whose value a step has in a variable: as data, and not as words."""

    name: str
    variable: str
    value: str


def workflow(toolchain: Toolchain) -> str:
    """Return the text of the workflow file."""
    loader = jinja2.PackageLoader("tnpu_nix", "templates/ci")
    # The usual "{{" is what GitHub's own expressions begin with.
    environment = render.environment(loader, "{=", "=}")
    environment.filters["yaml"] = _yaml
    tokens = {pin.token_env for _, pin in toolchain.pins.items() if pin.token_env is not None}
    body = environment.get_template("tnpu.yml.j2").render(
        ci=toolchain.ci,
        image=toolchain.image,
        parts=_PARTS,
        slurm_options=_slurm_options(toolchain),
        tokens=sorted(tokens),
        fills_cache=toolchain.cache.push is not None,
    )
    return render.with_header(WORKFLOW, body)


def _yaml(value: Any) -> str:
    """Return a value as YAML writes it in one line: JSON is YAML."""
    return json.dumps(value, ensure_ascii=False)


def _slurm_options(toolchain: Toolchain) -> list[_SlurmOption]:
    slurm = toolchain.slurm
    values = {
        "partition": slurm.partition,
        "cpus-per-task": slurm.cpus,
        "time": slurm.time,
        "mem": slurm.memory,
    }
    return [
        _SlurmOption(name, f"TNPU_SLURM_{name.upper().replace('-', '_')}", str(value))
        for name, value in values.items()
        if value is not None
    ]
