"""The JSON of images, of any form: what is no configuration is told from what is one."""

from __future__ import annotations

import json

import pytest

from tnpu_nix.images.contents import parse_manifest
from tnpu_nix.registry import document

GOOD = {"rootfs": {"type": "layers", "diff_ids": []}}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"5",
        b"{",
        b"\xff{}",
        b"{}",
        b'{"rootfs": []}',
        b'{"rootfs": {"type": "layers", "diff_ids": {}}}',
        b'{"rootfs": {"type": "layers", "diff_ids": [5]}}',
        b'{"rootfs": {"type": "layers", "diff_ids": ["sha256:0"]}}',
        b'{"rootfs": {"type": "other", "diff_ids": []}}',
        *(
            json.dumps({**GOOD, **more}).encode()
            for more in (
                {"config": ["a"]},
                {"config": {"Labels": ["a"]}},
                {"config": {"Labels": {"a": 5}}},
                {"config": {"Env": ["A=1", 5]}},
                {"config": {"Env": {"A": "1"}}},
                {"config": {"Cmd": "sh"}},
                {"history": {"a": 1}},
                {"history": ["a"]},
                {"x": float("nan")},
            )
        ),
        b'{"x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"x": ' * 100_000,
    ],
)
def test_a_document_that_is_no_configuration_is_one_clear_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        document.configuration(text)


def test_what_is_not_of_an_image_is_read_to_any_depth_or_not_at_all() -> None:
    for text in (b"[" * 200_000, b"", b"\xff"):
        with pytest.raises(ValueError, match=r"."):
            document.lenient(text)
        assert parse_manifest(text) == {}
    assert document.lenient(b'{"Type": 1, "type": 2}') == {"Type": 1, "type": 2}


def test_names_of_an_images_own_may_differ_in_case() -> None:
    labels = {"Version": "1", "version": "2"}
    assert document.configuration(json.dumps({**GOOD, "config": {"Labels": labels}}).encode())
