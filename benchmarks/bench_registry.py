"""Images in a registry: the question whether a tag is there, a push, and what a bump moves.

The image is the demo's, miniatures and all, with BALLAST in the place of a real LLVM's size: a
file of 1.1 GiB in llvm-tools, two thirds of it machine code of this machine (which compresses as
LLVM's own does), one third pseudo-random bytes (which do not compress at all). Registry, store and
clients are on this machine and share its cores. skopeo reads a stored archive, as it has to.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.compare import compare
from tests.conftest import REPOSITORY, environment
from tests.registry import Registry, registry
from tnpu_nix import pinsfile
from tnpu_nix.nix import Nix

_BALLAST = """\
final: prev: {
  llvm-tools = prev.llvm-tools.overrideAttrs (_: {
    postInstall = ''
      mkdir $out/share
      {
        for _ in $(seq 20); do cat /usr/lib/x86_64-linux-gnu/*.so.* /usr/bin/* || break; done \\
          2>/dev/null | head -c 800000000 || :
        /usr/bin/python3 -c 'import random, sys; random.seed(1)
      for _ in range(400): sys.stdout.buffer.write(random.randbytes(1000000))'
      } >$out/share/ballast
    '';
  });
}
"""
_ROUNDS = 3
_NAME = "lab/bench"


@dataclass
class Bench:
    """A project with a large image, in a store of its own below *folder*."""

    folder: Path

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def env(self) -> dict[str, str]:
        tmp = self.folder / "tmp"
        tmp.mkdir(exist_ok=True)
        store = str(self.folder / "store")
        return environment(TNPU_NIX_STORE=store, TMPDIR=str(tmp), HOME=str(self.folder))


@dataclass(frozen=True)
class Cost:
    """What a command took."""

    seconds: float
    memory: int  # bytes, resident, of the largest process
    disk: int  # bytes, the most that lay in its folders beside what was there


def main() -> None:
    """Run the three measurements and print them."""
    with tempfile.TemporaryDirectory(prefix="bench-registry-", dir=_scratch()) as name:
        bench = Bench(Path(name))
        try:
            _prepare(bench)
            _hit(bench)
            _push(bench)
            _bump(bench)
        finally:  # a store is a read-only tree
            subprocess.run(["chmod", "-R", "u+w", name], check=False)


def _scratch() -> Path:
    folder = REPOSITORY / ".test-cache"
    folder.mkdir(exist_ok=True)
    return folder


def _prepare(bench: Bench) -> None:
    demo = REPOSITORY / ".test-cache" / "demo"
    argv = [sys.executable, "-m", "tnpu_nix", "demo", str(demo)]
    subprocess.run(argv, env=environment(), check=True, capture_output=True)
    subprocess.run(["cp", "-a", str(demo / "store"), str(bench.folder / "store")], check=True)
    ignored = shutil.ignore_patterns(".git", ".tnpu-nix")
    shutil.copytree(demo / "project", bench.project, ignore=ignored)
    (bench.project / "nix" / "overrides.nix").write_text(_BALLAST)
    _run(bench, ["build", "tnpu-image-stream", "--offline-profile"])


def _run(bench: Bench, arguments: Sequence[str], **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tnpu_nix", *arguments],
        cwd=bench.project,
        env={**bench.env, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def _fresh(bench: Bench) -> Iterator[Registry]:
    """A registry that has nothing yet, and is gone afterwards."""
    folder = bench.folder / "registry"
    with registry(folder) as server:
        yield server
    shutil.rmtree(folder)


def _ensure(server: Registry) -> list[str]:
    return ["image", "ensure", "--offline-profile", "--to", f"{server.host}/{_NAME}"]


def _hit(bench: Bench) -> None:
    """The question whether the tag is there, once it is."""
    program = Path(sys.executable).parent / "tnpu-nix"
    with _fresh(bench) as server:
        auth = {"REGISTRY_AUTH_FILE": str(server.auth_file)}
        image = _run(bench, _ensure(server), **auth)
        env = {**bench.env, **auth}

        def run(argv: list[str]) -> None:
            subprocess.run(argv, cwd=bench.project, env=env, check=True, capture_output=True)

        skopeo = ["skopeo", "inspect", "--tls-verify=false", f"docker://{image}"]
        ratio = compare(
            "image ensure on a hit, against skopeo inspect",
            lambda: run([str(program), *_ensure(server)]),
            lambda: run(skopeo),
            rounds=15,
            limit=1.5,
        )
        print(ratio.line(), flush=True)


def _push(bench: Bench) -> None:
    """The whole image into an empty registry."""
    script = _run(bench, ["build", "tnpu-image-stream", "--offline-profile"])
    stored = bench.folder / "image.tar"
    env = {**bench.env, **Nix(bench.folder / "store", offline_profile=True).variables()}
    with stored.open("wb") as out:
        subprocess.run([script], stdout=out, stderr=subprocess.DEVNULL, env=env, check=True)
    size = stored.stat().st_size
    took: dict[str, list[Cost]] = {"tnpu-nix image push": [], "skopeo copy": []}
    wire: dict[str, int] = {}
    for _ in range(_ROUNDS):
        for name, costs in took.items():
            with _fresh(bench) as server:
                target = f"{server.host}/{_NAME}:bench"
                argv = [sys.executable, "-m", "tnpu_nix", "image", "push", "--offline-profile"]
                argv += ["--to", target]
                if name == "skopeo copy":
                    argv = ["skopeo", "copy", "--quiet", "--dest-tls-verify=false"]
                    argv += [f"docker-archive:{stored}", f"docker://{target}"]
                costs.append(_cost(bench, argv, server))
                wire[name] = sum(_layers(server, "bench").values())
    stored.unlink()
    print(f"push of an image of {size / 2**30:.2f} GiB into an empty registry:")
    for name, costs in took.items():
        best = sorted(costs, key=lambda one: one.seconds)[len(costs) // 2]
        print(
            f"  {name}: {best.seconds:.1f} s, {size / 1e6 / best.seconds:.0f} MB/s,"
            f" {wire[name] / 1e6:.0f} MB on the wire,"
            f" {max(one.memory for one in costs) / 2**20:.0f} MiB of memory,"
            f" {max(one.disk for one in costs) / 1e6:.1f} MB of disk",
            flush=True,
        )
    print(f"  (skopeo read a stored archive of {size / 1e6:.0f} MB beside that)")


def _cost(bench: Bench, argv: list[str], server: Registry) -> Cost:
    env = {**bench.env, "REGISTRY_AUTH_FILE": str(server.auth_file)}
    before, most, over = _used(bench), 0, threading.Event()

    def look() -> None:
        nonlocal most
        while not over.wait(0.05):
            most = max(most, _used(bench) - before)

    watcher = threading.Thread(target=look)
    watcher.start()
    started = time.perf_counter()
    process = subprocess.Popen(
        argv, cwd=bench.project, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    over.set()
    watcher.join()
    assert process.returncode == 0, said
    return Cost(seconds, usage.ru_maxrss * 1024, most)


def _used(bench: Bench) -> int:
    """Bytes of the files that a client may have written."""
    total = 0
    for folder in (bench.folder / "tmp", bench.project):
        for where, _, names in os.walk(folder):
            for name in names:
                with suppress(OSError):  # gone meanwhile
                    total += Path(where, name).lstat().st_size
    return total


def _layers(server: Registry, tag: str) -> dict[str, int]:
    """Return what a puller needs of an image: digest → bytes, the configuration included."""
    done = server.skopeo(
        "inspect", "--raw", "--tls-verify=false", f"docker://{server.host}/{_NAME}:{tag}"
    )
    manifest = json.loads(done.stdout)
    return {one["digest"]: one["size"] for one in [manifest["config"], *manifest["layers"]]}


def _bump(bench: Bench) -> None:
    """What someone who has the image before a bump of spike needs for the one after it."""
    with _fresh(bench) as server:
        auth = {"REGISTRY_AUTH_FILE": str(server.auth_file)}
        before = _run(bench, _ensure(server), **auth).rpartition(":")[2]
        url = pinsfile.load(bench.project / "pins.toml").pins.spike.url
        listed = subprocess.run(["git", "ls-remote", "--tags", url], capture_output=True, text=True)
        tag = listed.stdout.split("refs/tags/")[1].split("\n")[0].removesuffix("^{}")
        _run(bench, ["bump", "spike", tag])
        started = time.perf_counter()
        pushed = json.loads(_run(bench, [*_ensure(server), "--json"], **auth))
        took = time.perf_counter() - started
        old, new = _layers(server, before), _layers(server, pushed["tag"])
    needed = sum(size for digest, size in new.items() if digest not in old)
    whole = sum(new.values())
    print(
        f"after a bump of spike a puller needs {needed / 1e6:.2f} of {whole / 1e6:.0f} MB"
        f" ({100 * needed / whole:.2f} %, limit 2 %); ensure uploaded"
        f" {pushed['bytes_uploaded'] / 1e6:.2f} MB and took {took:.1f} s, the builds included"
    )


if __name__ == "__main__":
    main()
