"""What the name of a variable says: which upstream it speaks of, and what of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

# How people spell the five upstreams; the longest that fits, and the last in a name, counts.
_SPELLINGS = {
    "llvm": ("LLVM_PROJECT", "LLVMPROJECT", "LLVM"),
    "triton": ("TRITON_LANG", "OPENAI_TRITON", "TRITON"),
    "triton_shared": ("TRITON_SHARED", "TRITONSHARED"),
    "spike": ("RISCV_ISA_SIM", "ISA_SIM", "RISCVISASIM", "SPIKE"),
    "pk": ("RISCV_PROXY_KERNEL", "PROXY_KERNEL", "PROXYKERNEL", "RISCV_PK", "RISCVPK", "PK"),
}
# The last part of the path of a repository, in lower case, with "-" for "_".
_REPOSITORIES = {
    **{"llvm-project": "llvm", "llvm": "llvm", "triton": "triton"},
    **{"triton-shared": "triton_shared", "riscv-isa-sim": "spike", "spike": "spike"},
    **{"riscv-pk": "pk", "pk": "pk"},
}
# Words that say of whom or for what, and not of another thing.
_NEUTRAL = {
    *("TNPU", "NPU", "PIN", "PINS", "PINNED", "GIT", "GITHUB", "TOOLCHAIN", "THIRDPARTY", "THIRD"),
    *("PARTY", "DEP", "DEPS", "OUR", "LAB", "PSAL", "POSTECH", "TORCHSIM", "PYTORCHSIM", "FORK"),
    *("EXPECTED", "REQUIRED", "DEFAULT", "SSH", "HTTPS", "HTTP"),
}
_ROLES = {
    "rev": "SHA SHA1 REV REVISION COMMIT COMMITISH HASH REF PIN PINNED ID",
    "tag": "TAG",
    "branch": "BRANCH TRACK",
    "version": "VERSION VER RELEASE",
    "url": "URL URI REPO REPOSITORY REMOTE ORIGIN GIT",
    "source": "SRC SOURCE SOURCES CLONE CHECKOUT",
    "folder": "DIR DIRECTORY PATH HOME ROOT PREFIX FOLDER WORKDIR BIN INSTALL BUILD",
    "asset": "ASSET TARBALL ARCHIVE FILE PACKAGE PKG ZIP TGZ",
    "checksum": "SHA256 SHA256SUM SHA512 MD5 CHECKSUM DIGEST",
}
_ROLE_OF = {word: role for role, words in _ROLES.items() for word in words.split()}
# Words that may stand before the one that says the role: LLVM_GIT_COMMIT_SHA, LLVM_REPO_URL.
_FILLERS = {
    *("GIT", "COMMIT", "REPO", "RELEASE", "CLONE", "REMOTE", "ASSET", "TAG", "BRANCH", "SRC"),
    *("SOURCE", "CHECKOUT"),
}


@dataclass(frozen=True)
class Naming:
    """What a name says."""

    stem: str  # the name without the words of its role: what variables of one thing share
    role: str  # a key of _ROLES; "" where the name does not say
    pin: str | None  # None: no upstream is named
    neutral: int  # words beside the upstream's that mean nothing
    qualifiers: tuple[str, ...]  # words that say more: TRITON_SHARED_PREBUILT_SHA has PREBUILT
    of_release: bool  # RELEASE_TAG, ASSET_NAME: what a tarball was called


def repository_pin(path: str) -> str | None:
    """Return the pin whose upstream's repository is called like the last part of *path*."""
    last = path.rstrip("/").rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    return _REPOSITORIES.get(last.removesuffix(".git").lower().replace("_", "-"))


def words_of(name: str) -> list[str]:
    """Return the words of a name in upper case, however it parts them: ``a_b``, ``a.b``, ``aB``."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return [word.upper() for word in re.split(r"[^A-Za-z0-9]+", spaced) if word]


def read_name(name: str) -> Naming:
    """Return what the name of a variable, or the path to a value in a JSON file, says."""
    role, role_words, rest = _role(words_of(name))
    pin, others = _upstream(rest)
    return Naming(
        "_".join(rest),
        role,
        pin,
        sum(one in _NEUTRAL or one.isdigit() for one in others),
        tuple(one for one in others if one not in _NEUTRAL and not one.isdigit()),
        role == "asset" or "RELEASE" in role_words or "ASSET" in role_words,
    )


def is_harness(name: str) -> bool:
    """Tell whether a name speaks of triton-npu, the repository that held versions.env."""
    words = words_of(name)
    if any(words[at : at + 2] == ["TRITON", "NPU"] for at in range(len(words))):
        return True
    return words[:1] == ["TNPU"] and read_name(name).pin is None


def _role(words: list[str]) -> tuple[str, list[str], list[str]]:
    """Split off the words that say what a variable holds: at the end, else at the start."""
    if words and words[-1] == "NAME" and len(words) > 1 and words[-2] in (*_FILLERS, "IMAGE"):
        words = words[:-1]
    count = len(words)
    if count and words[-1] in _ROLE_OF:
        role, count = _ROLE_OF[words[-1]], count - 1
        while count and words[count - 1] in _FILLERS:
            count -= 1
        return role, words[count:], words[:count]
    count = 0
    while count < len(words) - 1 and words[count] in _ROLE_OF:
        count += 1
    if count:
        return _ROLE_OF[words[count - 1]], words[:count], words[count:]
    return "", [], words


def _upstream(words: list[str]) -> tuple[str | None, list[str]]:
    """Return the upstream that the words name, and the other words."""
    # LLVM23 is a spelling of LLVM.
    plain = [word.rstrip("0123456789") or word for word in words]
    best: tuple[int, int, str] | None = None
    for pin, spellings in _SPELLINGS.items():
        for spelling in spellings:
            parts = spelling.split("_")
            for at in range(len(plain) - len(parts) + 1):
                if plain[at : at + len(parts)] == parts:
                    best = max(best or (0, 0, ""), (at + len(parts), len(parts), pin))
    if best is None:
        return None, words
    end, length, pin = best
    return pin, words[: end - length] + words[end:]
