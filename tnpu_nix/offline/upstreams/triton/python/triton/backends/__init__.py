"""Back ends are found through the entry points `triton.backends` of what is installed."""

import importlib
from dataclasses import dataclass
from importlib.metadata import entry_points

from .compiler import BaseBackend
from .driver import DriverBase


@dataclass(frozen=True)
class Backend:
    compiler: type
    driver: type


def _subclass(module, base):
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, base) and value is not base:
            return value
    raise RuntimeError(f"{module.__name__} has no {base.__name__}")


def _discover():
    found = {}
    for entry in entry_points().select(group="triton.backends"):
        compiler = importlib.import_module(f"{entry.value}.compiler")
        driver = importlib.import_module(f"{entry.value}.driver")
        found[entry.name] = Backend(_subclass(compiler, BaseBackend), _subclass(driver, DriverBase))
    return found


backends = _discover()
