"""What in an imported file is a secret, and is neither printed nor written."""

from __future__ import annotations

import pytest

from tnpu_nix.migration.redaction import Redactor, is_secret
from tnpu_nix.migration.sheet import Variable


@pytest.mark.parametrize(
    "name",
    [
        *("MY_PASS", "DEPLOY_CRED", "DEPLOY_CREDS", "REGISTRY_LOGIN", "DB_PWD", "SSH_PRIVATE"),
        *("SIGNING_K", "myPassword", "GHTOKEN", "spike.login"),
    ],
)
def test_a_name_tells_a_secret(name: str) -> None:
    secret = Variable(name, "f", 1, "bob:hunter2")
    assert Redactor([secret]).value(secret) == "***"
    assert Redactor([secret]).text("# it is bob:hunter2") == "# it is ***"


@pytest.mark.parametrize(
    "name", ["PWD", "OLDPWD", "LLVM_SHA", "TRITON_PRIVATE_URL", "LLVM_PASSES", "SPIKE_PATH"]
)
def test_other_names_tell_none(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    "text",
    [
        "# curl -u bob:hunter2 https://host/x",
        "# curl --user bob:hunter2 https://host/x",
        "# curl --user='bob:hunter2' https://host/x",
        "# curl -ubob:hunter2 https://host/x",
        "# docker login -u bob -p hunter2 host",
        "# x --password hunter2",
        "# clone it with a token (PAT is hunter2)",
        "# the password is hunter",
        "# Password: hunter2",
        "# token = hunter2, for the mirror",
        "# API_KEY=hunter2",
        "# secret is 'hunter2' here",
        "# the PAT is hunter2hunter2 (all of it)",
    ],
)
def test_a_secret_in_a_comment_is_taken_out(text: str) -> None:
    assert "hunter" not in Redactor([]).text(text)


@pytest.mark.parametrize(
    "text",
    [
        f"# the key is {'a1' * 20}",
        f"# key: {'a1' * 20} of llvm",
        "# token: https://host/settings says how",
        "# the key is in the vault",
        "# a secret, and no password at all",
        "# git push -u origin main",
    ],
)
def test_a_comment_without_a_secret_stays_as_it_is(text: str) -> None:
    assert Redactor([]).text(text) == text
