"""hostpkgs behaves as nixpkgs does where nix/ and a user's overrides.nix rely on it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import Bench, derivation, inserted, members, python_package, script
from tests.conftest import Demo
from tnpu_nix.flake import hostpkgs
from tnpu_nix.images import archive
from tnpu_nix.nix import Nix


@pytest.fixture(scope="session")
def bench(demo: Demo) -> Bench:
    return Bench(Nix(store=demo.store, offline_profile=True))


# A library in two outputs, whose header is left for the fixup phase to move.
LIBRARY = derivation(
    "thing",
    """
    outputs = [ "out" "dev" ];
    buildPhase = ''
      echo 'int thing(void) { return 42; }' >thing.c
      $CC -shared -fPIC -o libthing.so thing.c
    '';
    installPhase = ''
      install -Dm755 -t $out/lib libthing.so
      mkdir $out/include
      echo 'int thing(void);' >$out/include/thing.h
    '';
    """,
)


def program(flags: str, more: str = "") -> str:
    """Return the expression of a program that is linked with the library."""
    source = r"#include <thing.h>\n#warning hello\nint main(void) { return thing() - 42; }\n"
    return derivation(
        "user",
        f"""
        buildInputs = [ {LIBRARY} ];
        buildPhase = ''
          printf '{source}' >user.c
          $CC -Werror {flags} -o user user.c -lthing
        '';
        installPhase = "install -Dm755 -t $out/bin user; $out/bin/user";
        {more}
        """,
    )


# ---- stdenv


def test_outputs_are_split_and_the_dev_output_brings_the_others(bench: Bench) -> None:
    dev = bench.build(f"{LIBRARY}.dev")
    out = bench.build(f"{LIBRARY}.out")
    assert (dev / "include" / "thing.h").is_file()
    assert [path.name for path in out.iterdir()] == ["lib"]
    assert bench.query("--references", dev) == ["thing"]


def test_flags_for_the_compiler_come_after_the_packages_own(bench: Bench) -> None:
    assert "treated as errors" in bench.fails(program(""))
    bench.build(program("", 'env.NIX_CFLAGS_COMPILE = "-Wno-error";'))


def test_a_linked_program_needs_the_store_alone(bench: Bench) -> None:
    built = bench.build(program("-Wno-error"))
    closure = bench.query("--requisites", built)
    assert set(closure) - {"host-gcc-lib-host"} == {"host-glibc-host", "thing", "user"}
    read = subprocess.run(
        ["readelf", "-ld", str(built / "bin" / "user")], capture_output=True, text=True
    ).stdout
    paths = re.findall(r"(?:interpreter: |R(?:UN)?PATH.*\[|runpath: \[|rpath: \[)([^\]]*)\]", read)
    assert len(paths) == 2
    for path in ":".join(paths).split(":"):
        assert path.startswith("/nix/store/"), read


@pytest.mark.parametrize(
    ("flags", "fixup", "said"),
    [
        ("/usr/lib/x86_64-linux-gnu/libbz2.so.1.0 -Wl,--no-as-needed", "", "needs libbz2.so.1.0"),
        # The wrapper has the last word on the loader; only patchelf gets past it.
        ("", "patchelf --set-interpreter /lib64/ld-linux-x86-64.so.2 $out/bin/user", "/lib64/ld-"),
    ],
)
def test_a_program_that_needs_the_machine_is_refused(
    bench: Bench, flags: str, fixup: str, said: str
) -> None:
    log = bench.fails(program(f"-Wno-error -Wl,--no-as-needed {flags}", f'preFixup = "{fixup}";'))
    assert f"bin/user {'needs' if flags else 'is started by'}" in log and said in log


PHASES = r"""
  (stdenv.mkDerivation {
    pname = "phases";
    version = "1";
    src = runCommand "src" { } ''
      mkdir "$out"
      echo one >"$out/text"
      printf '%s\n' '#!/bin/sh' 'printf "%s\n" "$@" >flags' >"$out/configure"
      chmod +x "$out/configure"
      touch -- "$out/--glob=file"
    '';
    postPatch = "echo postPatch >>log";
    configureFlags = [ "--glob=*" ];
    preConfigure = ''configureFlagsArray+=("--two words"); before=$(stat -c %Y configure)
      patchShebangs configure; [[ $before == $(stat -c %Y configure) ]]; head -n 1 configure'';
    preBuild = "echo preBuild >>log";
    buildPhase = "runHook preBuild; echo buildPhase >>log; runHook postBuild";
    postBuild = "echo postBuild >>log";
    preInstall = "echo preInstall >>log";
    installPhase = "runHook preInstall; mkdir $out; cp text log flags $out/; runHook postInstall";
    postFixup = "echo postFixup >>$out/log";
    doCheck = true;
    checkPhase = "echo checkPhase >>log";
    nativeInstallCheckInputs = [ (throw "not needed without doInstallCheck") ];
  })
"""
PATCH = r"""(writeText "patch" "--- a/text\n+++ b/text\n@@ -1 +1 @@\n-one\n+two\n")"""


def test_phases_run_with_their_hooks_in_order(bench: Bench) -> None:
    built = bench.build(PHASES)
    log = " ".join((built / "log").read_text().split())
    assert log == "postPatch preBuild buildPhase postBuild checkPhase preInstall postFixup"
    flags = (built / "flags").read_text().splitlines()
    assert flags[0].startswith("--prefix=/nix/store/")
    assert flags[-2:] == ["--glob=*", "--two words"]


def test_override_attrs_takes_what_nixpkgs_takes(bench: Bench) -> None:
    changed = f"""
      (({PHASES}.overrideAttrs (old: {{ postPatch = old.postPatch + "; echo more >>log"; }}))
        .overrideAttrs (final: old: {{
          patches = [ {PATCH} ];
          version = "2";
          postPatch = old.postPatch + "; echo ${{final.version}} >>log";
        }})).overrideAttrs {{ preBuild = "echo replaced >>log"; }}
    """
    built = bench.build(changed)
    assert built.name.endswith("-phases-2")
    assert (built / "text").read_text() == "two\n"
    log = (built / "log").read_text().split()
    assert log[:4] == ["postPatch", "more", "2", "replaced"]
    assert bench.evaluate(f"({changed}).configureFlags") == ["--glob=*"]


def test_a_failing_command_ends_the_build_with_its_hook(bench: Bench) -> None:
    more = 'installPhase = "touch $out"; failureHook = "echo too bad"; exitHook = "echo all well";'
    broken = derivation("broken", f'buildPhase = "echo in; false; echo went on"; {more}')
    said = bench.fails(broken)
    assert "too bad" in said and "went on" not in said and "all well" not in said


def test_the_compiler_knows_the_inputs_of_what_it_reads_from_a_pipe(bench: Bench) -> None:
    commands = "echo '#include <thing.h>' | $CC -E -x c - >$out"
    built = bench.build(script("piped", commands, f"buildInputs = [ {LIBRARY} ];"))
    assert "int thing(void);" in built.read_text()


def test_replace_fail_fails_when_the_text_is_not_there(bench: Bench) -> None:
    text = "echo 'a & b' >text; substituteInPlace text --replace-fail"
    said = bench.fails(script("replace", f"{text} missing x"))
    assert "'missing' does not occur in file 'text'" in said
    built = bench.build(script("replace", f"{text} 'a & b' '&\\1 *'; cp text $out"))
    assert built.read_text() == "&\\1 *\n"


def test_wrap_program_sets_the_environment(bench: Bench) -> None:
    commands = r"""
      mkdir -p $out/bin "$out/with blank"
      printf '%s\n' '#!/bin/sh' 'echo "$A:$PATH:$*"' >"$out/with blank/show"
      chmod +x "$out/with blank/show"
      wrapProgram "$out/with blank/show" --set A '$x "y"' --suffix PATH : /last --add-flags -v
      PATH=/first "$out/with blank/show" 'a b' >$out/said
    """
    built = bench.build(script("wrapped", commands, "nativeBuildInputs = [ makeWrapper ];"))
    assert (built / "said").read_text() == '$x "y":/first:/last:-v a b\n'


def test_symlink_join_joins_trees_and_the_first_one_wins(bench: Bench) -> None:
    tree = "(runCommand \"{0}\" {{ }} ''mkdir -p $out/sub; echo {0} | tee $out/{0} >$out/sub/x'')"
    joined = f"""(symlinkJoin {{
      name = "joined"; paths = [ {tree.format("a")} {tree.format("b")} ]; postBuild = "rm $out/b";
    }})"""
    commands = f"cd {inserted(joined)}; ls -R . | tr '\\n' ' ' >$out; cat sub/x >>$out"
    assert bench.build(script("read", commands)).read_text() == ".: a sub  ./sub: x a\n"


def test_a_large_command_is_no_problem(bench: Bench) -> None:
    comment = '${builtins.concatStringsSep "" (builtins.genList (_: "x") 200000)}'
    assert bench.build(script("large", f"# {comment}\ntouch $out")).exists()


def test_what_is_cross_compiled_refers_to_nothing(bench: Bench) -> None:
    cross = derivation(
        "object",
        """
        buildPhase = "echo 'int f(void) { return __LINE__; }' >f.c; $CC -g -c f.c; file f.o";
        installPhase = "install -D -t $out/lib f.o";
        dontStrip = true;
        """,
    ).replace("stdenv", "pkgsCross.riscv64-embedded.stdenv", 1)
    built = bench.build(cross)
    assert built.name.endswith("-object-riscv64-unknown-elf")
    assert bench.query("--references", built) == []
    content = (built / "lib" / "f.o").read_bytes()
    assert content[18] == 243  # EM_RISCV
    assert b"/usr/" not in content and b"/nix/store/" not in content


# ---- sources and the machine's tools


def test_a_source_has_the_path_that_nix_store_gives_it(bench: Bench, tmp_path: Path) -> None:
    source = tmp_path / "thing-1234567"
    source.mkdir()
    (source / "file").write_text("text\n")
    added = bench.run("nix-store", "--add-fixed", "--recursive", "sha256", str(source))
    found = bench.run("nix", "hash", "path", str(source)).stdout.strip()
    fetch = f"""(fetchgit {{
      url = "https://example.invalid/x/thing.git"; rev = "1234567{"0" * 33}"; hash = "{found}";
    }})"""
    assert bench.evaluate(f"{fetch}.outPath") == added.stdout.strip()
    assert (bench.build(fetch) / "file").read_text() == "text\n"


def test_a_source_that_is_not_in_the_store_says_how_to_get_it(bench: Bench) -> None:
    hash_ = "sha256-" + "C" * 42 + "A="
    url = "https://example.invalid/a'b.git"
    said = bench.fails(f'fetchgit {{ url = "{url}"; rev = "abc"; name = "x"; hash = "{hash_}"; }}')
    assert f"hostpkgs: revision abc of {url} is not in the store" in said
    assert f"nix-prefetch-git {url} abc" in said


def test_a_tool_that_the_machine_lacks_is_named_with_its_package(bench: Bench) -> None:
    tool = """hostDerivation {
      pname = "tool"; apt = "some-package"; script = "link_programs no-such-program";
    }"""
    said = bench.fails(tool)
    assert "hostpkgs: /usr/bin/no-such-program is not on this machine" in said
    assert "hostpkgs: install it with: apt-get install some-package" in said


def test_another_python_than_the_machines_is_refused(bench: Bench) -> None:
    host = host_python()
    other = "3.14" if host != "3.14" else "3.13"
    said = bench.fails(f"python{other.replace('.', '')}")
    assert f"Python {other} is asked for, but /usr/bin/python3 of this machine is {host}" in said


def host_python() -> str:
    said = subprocess.run(["/usr/bin/python3", "--version"], capture_output=True, text=True)
    return ".".join(said.stdout.split()[1].split(".")[:2])


def test_every_attribute_evaluates(bench: Bench) -> None:
    expression = f"""
      let
        flake = (import {hostpkgs()}/flake.nix).outputs {{ self = null; }};
        set = flake.legacyPackages.x86_64-linux;
        kind = value: if lib.isDerivation value then value.drvPath else builtins.typeOf value;
        kinds = lib.mapAttrsToList (_: kind);
      in
      kinds set ++ kinds set.pkgsCross.riscv64-embedded ++ kinds lib
      ++ kinds set.python3.pkgs ++ kinds set.python311.pkgs
    """
    kinds = bench.evaluate(expression)
    assert isinstance(kinds, list) and len(kinds) > 150


# ---- Python


WRAPPED = 'makeWrapperArgs = [ "--set" "A" "yes" ];'
SECOND = python_package("second", python_package("first"), WRAPPED)
ENVIRONMENT = f"(python3.withPackages (_: [ {SECOND} ]))"


def test_a_python_program_finds_what_it_depends_on(bench: Bench) -> None:
    program = f"{inserted(SECOND)}/bin/second"
    built = bench.build(script("runs", f"env -i {program} >$out"))
    assert re.fullmatch(r"/nix/store/[^/]*second-1/bin/second first yes\n", built.read_text())


def test_a_python_environment_works_through_a_link(bench: Bench) -> None:
    commands = f"""
      ln -s {inserted(ENVIRONMENT)}/bin/python3 linked
      env -i ./linked -c 'import first, second, sys; print(sys.prefix, *sys.path)' >$out
      env -i {inserted(ENVIRONMENT)}/bin/second >>$out
      env -i {inserted(ENVIRONMENT)}/bin/first >>$out
    """
    paths, second, first = bench.build(script("linked", commands)).read_text().splitlines()
    assert paths.split()[0].endswith("-env")
    assert all(path.startswith("/nix/store/") for path in paths.split()), paths
    assert second.endswith("/bin/second first yes")
    assert first.endswith("/bin/first first None")


def test_a_python_environment_brings_no_headers_and_no_compiler(bench: Bench) -> None:
    closure = bench.query("--requisites", bench.build(ENVIRONMENT))
    assert not [name for name in closure if re.search("headers|wrapper|setuptools|stdenv", name)]


# ---- dockerTools


def image(name: str, more: str) -> str:
    """Return the expression of an image whose store paths are bash and what it needs."""
    return f"""(dockerTools.buildLayeredImage {{
      name = "{name}"; tag = "1"; contents = [ bash ]; {more}
    }})"""


BASE = image("base", 'maxLayers = 3; config.Env = [ "A=base" "B=base" ];')


def test_layers_are_as_many_as_allowed(bench: Bench) -> None:
    one_each = bench.query("--requisites", bench.build("bash"))
    assert len(archive.read(bench.build(image("many", ""))).layers) == len(one_each) + 1
    assert len(archive.read(bench.build(BASE)).layers) == 3
    assert "maxLayers 1 leaves no layer" in bench.fails(image("few", "maxLayers = 1;"))


def test_an_image_lies_on_its_base(bench: Bench) -> None:
    more = f'fromImage = {BASE}; maxLayers = 5; config.Env = [ "A=own" ];'
    more += 'extraCommands = "mkdir etc; echo text >etc/file"; created = "2026-01-01";'
    below, above = (archive.read(bench.build(one)) for one in (BASE, image("above", more)))
    assert len(above.layers) == 5
    assert [one.diff_id for one in above.layers[:3]] == [one.diff_id for one in below.layers]
    assert above.config["config"]["Env"] == ["A=own", "B=base"]
    names = members(above)[above.layers[-1].member]
    assert "etc/file" in names and "bin/bash" in names
    assert "leaves no layer" in bench.fails(image("full", f"fromImage = {BASE}; maxLayers = 4;"))
    no_image = 'fromImage = runCommand "no.tar" { } "tar -cf $out /dev/null";'
    assert "no.tar is not a docker-archive" in bench.fails(image("wrong", no_image))


def test_a_pipeline_says_which_paths_share_a_layer(bench: Bench) -> None:
    pipeline = """layeringPipeline = [
      [ "popularity_contest" ] [ "limit_layers" 1 ]
      [ "map" [ "pipe" [
        [ "subcomponent_in" [ "${bash}" ] ]
        [ "over" "rest" [ "split_every" 1 ] ]
      ] ] ]
      [ "flatten" ] [ "reverse" ]
    ];"""
    read = archive.read(bench.build(image("piped", pipeline)))
    paths = [
        {name.split("/")[2].split("-", 1)[1] for name in names if name.startswith("nix/store/")}
        for names in (members(read)[layer.member] for layer in read.layers)
    ]
    assert {"bash-host"} in paths and {"host-glibc-host"} in paths
    assert "unknown operation 'no'" in bench.fails(image("x", 'layeringPipeline = [ [ "no" ] ];'))


# ---- the same again


@pytest.fixture(scope="module")
def everything(bench: Bench) -> Iterator[str]:
    """One of each kind, built once."""
    kinds = [program("-Wno-error"), PHASES, SECOND, ENVIRONMENT, "python3", "bash", "glibc"]
    together = f"[ {' '.join(kinds)} {image('again', '')} ]"
    bench.build(together)
    yield together


def test_builds_give_the_same_bytes_twice(bench: Bench, everything: str) -> None:
    bench.build(everything, "--check")
