"""The JSON documents of an image, read so that no other reader can find something else in them.

RFC 8259 leaves open what a name means that comes twice, and Go, in which Docker, containerd and
skopeo are written, takes ``Layers`` for ``layers`` and the last of several (its encoding/json,
"Unmarshal"). A document of which that could be made use is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tnpu_nix.registry.reference import is_digest

Object = dict[str, Any]
# Objects whose names are data, where Go does tell upper from lower case.
_MAPS = ("Labels", "Volumes", "ExposedPorts", "annotations")
# What Go finds under any spelling: the fields of manifests, indexes and configurations of OCI, and
# those of Docker's (its image/spec and api/types/container/config.go).
_FIELDS = """
schemaVersion mediaType artifactType config layers manifests subject annotations digest size urls
data platform os architecture variant os.version os.features Config RepoTags Layers Parent
LayerSources created author rootfs history type diff_ids created_by comment empty_layer container
container_config docker_version id parent User ExposedPorts Env Entrypoint Cmd Volumes WorkingDir
Labels StopSignal StopTimeout Healthcheck OnBuild Shell ArgsEscaped Hostname Domainname AttachStdin
AttachStdout AttachStderr Tty OpenStdin StdinOnce Image MacAddress NetworkDisabled Memory MemorySwap
CpuShares CpuSet
"""
_SPELLINGS: dict[str, set[str]] = {}
for _field in _FIELDS.split():
    _SPELLINGS.setdefault(_field.casefold(), set()).add(_field)


def parse(data: bytes) -> Object:
    """Return a JSON object.

    Raises:
        ValueError: it is none, or one that others could read otherwise; its text says why.
    """
    found = parse_any(data)
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    return found


def parse_any(data: bytes) -> Any:
    """Return what a JSON text says; as for `parse`, which wants an object."""
    try:
        found = json.loads(data.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
        _check_case(found)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: {error.reason}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return found


def lenient(data: bytes) -> Any:
    """Return what a JSON text says that is not of an image, as Python reads it.

    Raises:
        ValueError: it is none.
    """
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _once(pairs: list[tuple[str, Any]]) -> Object:
    found: Object = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"ambiguous, it has {name!r} twice")
        found[name] = value
    return found


def _check_case(value: Any, is_map: bool = False) -> None:
    if isinstance(value, dict):
        folded: dict[str, str] = {}
        for name, one in value.items():
            if not is_map:
                _check_name(name, folded)
            _check_case(one, name in _MAPS)
    elif isinstance(value, list):
        for one in value:
            _check_case(one)


def _check_name(name: str, others: dict[str, str]) -> None:
    other = others.setdefault(name.casefold(), name)
    if other != name:
        raise ValueError(f"ambiguous, it has both {other!r} and {name!r}")
    known = _SPELLINGS.get(name.casefold())
    if known is not None and name not in known:
        raise ValueError(f"ambiguous, it has {name!r}, which others take for {min(known)!r}")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


def configuration(data: bytes) -> Object:
    """Read an image's configuration.

    Source: the OCI image specification, "Image Configuration". The types of all that is looked at
    here are checked.

    Raises:
        ValueError: it is none; the text says why.
    """
    found = parse(data)
    root = _of(dict, found.get("rootfs"), "rootfs")
    diff_ids = _of(list, root.get("diff_ids"), "rootfs.diff_ids")
    if root.get("type") != "layers" or not all(_is_digest(one) for one in diff_ids):
        raise ValueError("its rootfs does not name layers by their sha256")
    settings = _of(dict, found.get("config") or {}, "config")
    for name in ("Env", "Cmd", "Entrypoint"):
        _texts(_of(list, settings.get(name) or [], f"config.{name}"), f"config.{name}")
    labels = _of(dict, settings.get("Labels") or {}, "config.Labels")
    _texts(labels.values(), "config.Labels")
    for one in _of(list, found.get("history") or [], "history"):
        _of(dict, one, "history")
    return found


def _of(kind: type, value: Any, name: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"its {name} is no {'list' if kind is list else 'object'}")
    return value


def _texts(values: Iterable[Any], name: str) -> None:
    if not all(isinstance(one, str) for one in values):
        raise ValueError(f"its {name} holds something else than texts")


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and is_digest(value)
