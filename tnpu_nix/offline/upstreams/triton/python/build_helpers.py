import os
import sysconfig
import sys
from pathlib import Path


def get_base_dir():
    return os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))


def get_cmake_dir():
    version = f"{sys.implementation.name}-{sys.version_info.major}.{sys.version_info.minor}"
    folder = Path(get_base_dir()) / "build" / f"cmake.{sysconfig.get_platform()}-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
