"""Hashes and store paths as Nix writes them, held against Nix itself."""

from __future__ import annotations

import base64
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.conftest import environment
from tnpu_nix.storepath import base32, fixed_output_path, sri_from_base32


def asked(*argv: str) -> str:
    env = environment(NIX_CONFIG="extra-experimental-features = nix-command")
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@settings(max_examples=25, deadline=None)
@given(digest=some.binary(min_size=32, max_size=32))
def test_base32_is_what_nix_makes_of_it(digest: bytes) -> None:
    sri = f"sha256-{base64.b64encode(digest).decode()}"
    text = asked("nix-hash", "--type", "sha256", "--to-base32", digest.hex())
    assert base32(digest) == text
    assert sri_from_base32(text) == sri


@pytest.mark.parametrize("digest", ["", "short", "e" * 52, "0" * 53])
def test_what_is_no_base32_is_refused(digest: str) -> None:
    with pytest.raises(ValueError, match=r"base32|substring"):
        sri_from_base32(digest)


@settings(max_examples=25, deadline=None)
@given(
    digest=some.binary(min_size=32, max_size=32),
    name=some.text("abcXYZ0189-._+?=", min_size=1, max_size=60).filter(
        lambda it: it[0] not in "-."
    ),
)
def test_a_source_is_called_what_nix_calls_it(digest: bytes, name: str) -> None:
    sri = f"sha256-{base64.b64encode(digest).decode()}"
    words = ("nix-store", "--print-fixed-path", "--recursive", "sha256", sri, name)
    assert fixed_output_path(sri, name) == asked(*words)
