"""Build of the miniature triton: CMake through Ninja, as the environment says."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.develop import develop
from setuptools.command.egg_info import egg_info
from setuptools.command.install import install

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    from wheel.bdist_wheel import bdist_wheel

import pybind11

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from python.build_helpers import get_base_dir, get_cmake_dir


def flag(name, default=""):
    return os.getenv(name, default).upper() in ("ON", "1", "YES", "TRUE", "Y")


class Backend:
    """A code generator: in third_party/, or an external folder of TRITON_PLUGIN_DIRS."""

    def __init__(self, name, source, external):
        self.name, self.source, self.external = name, Path(source), external
        self.files = self.source / "backend"
        for file in ("compiler.py", "driver.py"):
            assert (self.files / file).exists(), f"{file} does not exist in {self.files}"


def external_backends():
    folders = os.getenv("TRITON_PLUGIN_DIRS", "").strip()
    for folder in folders.split(";") if folders else ():
        name = Path(folder, "backend", "name.conf").read_text().strip()
        yield Backend(name, folder, True)


backends = [Backend(name, Path("third_party", name), False) for name in ("nvidia", "amd")]
backends += external_backends()


def link_external_backends():
    """External back ends are packages only through these links."""
    for backend in backends:
        if not backend.external:
            continue
        link = ROOT / "python" / "triton" / "backends" / backend.name
        if link.is_symlink():
            link.unlink()
        elif link.exists():
            shutil.rmtree(link)
        link.symlink_to(backend.files.absolute(), target_is_directory=True)


def linking(command):
    class Linking(command):
        def run(self):
            link_external_backends()
            super().run()

    Linking.__name__ = command.__name__
    return Linking


def cache_path():
    home = os.getenv("TRITON_HOME") or os.getenv("HOME")
    if not home:
        raise RuntimeError("Could not find user home directory")
    path = Path(home) / ".triton"
    path.mkdir(parents=True, exist_ok=True)
    return path


def llvm_arguments():
    path = os.getenv("LLVM_SYSPATH")
    if not path:
        why = "TRITON_OFFLINE_BUILD" if flag("TRITON_OFFLINE_BUILD") else "the miniature"
        raise RuntimeError(f"{why} does not download LLVM: LLVM_SYSPATH must name an installed one")
    return [f"-DLLVM_SYSPATH={path}", f"-DLLVM_INCLUDE_DIRS={path}/include",
            f"-DLLVM_LIBRARY_DIR={path}/lib"]


def proton_arguments():
    if not flag("TRITON_BUILD_PROTON", "ON"):
        return ["-DTRITON_BUILD_PROTON=OFF"]
    if not os.getenv("JSON_SYSPATH"):
        raise RuntimeError("Proton needs JSON_SYSPATH, or TRITON_BUILD_PROTON=OFF")
    raise RuntimeError("the miniature has no Proton: TRITON_BUILD_PROTON=OFF")


def pybind11_arguments():
    path = os.getenv("PYBIND11_SYSPATH")
    include = f"{path}/include" if path else pybind11.get_include()
    return [f"-Dpybind11_INCLUDE_DIR={include}", f"-Dpybind11_DIR={pybind11.get_cmake_dir()}"]


def build_type():
    if flag("DEBUG"):
        return "Debug"
    if flag("REL_WITH_DEB_INFO"):
        return "RelWithDebInfo"
    return "TritonBuildWithO1" if flag("TRITON_BUILD_WITH_O1") else "TritonRelBuildWithAsserts"


class CMakeExtension(Extension):
    def __init__(self, name, path):
        super().__init__(name, sources=[])
        self.path = path


class CMakeBuild(build_ext):
    def run(self):
        try:
            subprocess.check_output(["cmake", "--version"])
        except OSError:
            raise RuntimeError("CMake >= 3.20 is required") from None
        for extension in self.extensions:
            self.build_extension(extension)

    def build_extension(self, ext):
        ninja = shutil.which("ninja")
        assert ninja is not None, "ninja not found!"
        output = os.path.abspath(os.path.dirname(self.get_ext_fullpath(ext.path)))
        arguments = [
            "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}",
            "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DLLVM_ENABLE_WERROR=ON",
            f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={output}", "-DTRITON_BUILD_PYTHON_MODULE=ON",
            f"-DPython3_EXECUTABLE:FILEPATH={sys.executable}",
            f"-DPython3_INCLUDE_DIR={sysconfig.get_path('platinclude')}",
            "-DTRITON_CODEGEN_BACKENDS=" + ";".join(b.name for b in backends if not b.external),
            "-DTRITON_PLUGIN_DIRS=" + ";".join(str(b.source) for b in backends if b.external),
            f"-DTRITON_WHEEL_DIR={os.path.dirname(output)}",
            f"-DTRITON_CACHE_PATH={cache_path()}", f"-DCMAKE_BUILD_TYPE={build_type()}",
            f"-DTRITON_BUILD_WITH_CCACHE={'ON' if flag('TRITON_BUILD_WITH_CCACHE', 'ON') else 'OFF'}",
            *llvm_arguments(), *pybind11_arguments(), *proton_arguments(),
        ]
        if flag("TRITON_OFFLINE_BUILD"):
            arguments.append("-DTRITON_BUILD_UT=OFF")
        arguments += shlex.split(os.getenv("TRITON_APPEND_CMAKE_ARGS", ""))
        folder = get_cmake_dir()
        jobs = os.getenv("MAX_JOBS", str(2 * os.cpu_count()))
        subprocess.check_call(["cmake", get_base_dir(), *arguments], cwd=folder)
        subprocess.check_call(["cmake", "--build", ".", f"-j{jobs}"], cwd=folder)


class CMakeBuildPy(build_py):
    def run(self):
        self.run_command("build_ext")
        return super().run()


def git(*arguments):
    try:
        answer = subprocess.check_output(["git", *arguments], cwd=ROOT, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return answer.decode().strip()


def version():
    text = (ROOT / "python" / "triton" / "__init__.py").read_text()
    number = re.search(r'__version__ = "(.*)"', text).group(1)
    suffix = os.getenv("TRITON_WHEEL_VERSION_SUFFIX", "")
    checkout = git("rev-parse", "--show-toplevel") == str(ROOT)
    if checkout and not git("rev-parse", "--abbrev-ref", "HEAD").startswith("release"):
        return f"{number}+git{git('rev-parse', '--short=8', 'HEAD')}{suffix.replace('+', '-')}"
    return number + suffix


setup(
    name=os.getenv("TRITON_WHEEL_NAME", "triton"),
    version=version(),
    description="tnpu-nix miniature, not triton",
    packages=[*find_packages(where="python"), *(f"triton.backends.{b.name}" for b in backends)],
    package_dir={"": "python", **{f"triton.backends.{b.name}": str(b.files)
                                  for b in backends if not b.external}},
    package_data={"triton": ["FileCheck"]},
    entry_points={"triton.backends": [f"{b.name} = triton.backends.{b.name}" for b in backends]},
    ext_modules=[CMakeExtension("triton", "triton/_C/")],
    cmdclass={"build_ext": CMakeBuild, "build_py": CMakeBuildPy, "bdist_wheel": linking(bdist_wheel),
              "develop": linking(develop), "egg_info": linking(egg_info), "install": linking(install)},
    python_requires=">=3.10",
    zip_safe=False,
)
