"""Files of pins as people write them; ``<llvm>`` is a repository, ``<llvm!>`` its pinned revision.

``<base>`` is the folder of all repositories, ``<llvm~>`` another revision of one, with the tag
``<llvm^>``. Each file says all of the five upstreams.
"""

from __future__ import annotations

LAB = """\
#!/usr/bin/env bash
# Pins of the toolchain; setup/restore.sh sources this file.

LLVM_REPO=<llvm>
# LLVM 23.0.0git, the revision in triton's cmake/llvm-hash.txt
LLVM_SHA=<llvm!>

# triton 3.6
TRITON_REPO="<triton>"
TRITON_SHA="<triton!>"

TRITON_SHARED_REPO='<triton_shared>'
TRITON_SHARED_SHA=<triton_shared!>  # the real pin
# Where backend/{compiler.py,driver.py,name.conf} come from.
TRITON_SHARED_BACKEND_SHA=<triton_shared~>
# What the tarball holds. Had gone stale twice over.
TRITON_SHARED_PREBUILT_SHA=<triton_shared~>

SPIKE_REPO=<spike>
SPIKE_SHA=<spike!>
PK_REPO=<pk>
PK_SHA=<pk!>

RELEASE_TAG=toolchain-llvm23
"""

EXPORTS = """\
set -euo pipefail
set -a

export GITHUB="<base>"
readonly LLVM_PROJECT_URL="${GITHUB}/llvm-project.git" \\
         LLVM_PROJECT_COMMIT=<llvm!>
declare -rx TRITON_URL="$GITHUB"'/triton.git'
declare -r TRITON_COMMIT=$'<triton!>'
export TRITON_SHARED_URL="${GITHUB}"/triton-shared.git TRITON_SHARED_COMMIT="<triton_shared!>"
export RISCV_ISA_SIM_URL=${GITHUB}/riscv-isa-sim.git; export RISCV_ISA_SIM_COMMIT=<spike!>
export "RISCV_PK_URL=${GITHUB}/riscv-pk.git"
export RISCV_PK_COMMIT='<pk!>' # proxy kernel

set +a
[[ -n "${CI:-}" ]] && echo "in CI"
"""

DEFAULTS = """\
# Every pin can be overridden from outside.
: "${LLVM_GIT_URL:=<llvm>}"
: "${LLVM_GIT_REV:=<llvm!>}"
: ${TRITON_GIT_URL:=<triton>} ${TRITON_GIT_REV:=<triton!>}
TRITON_SHARED_GIT_URL="${TRITON_SHARED_GIT_URL:-<triton_shared>}"
TRITON_SHARED_GIT_REV="${TRITON_SHARED_GIT_REV:-<triton_shared!>}"
export SPIKE_GIT_URL=${SPIKE_GIT_URL-<spike>}
export SPIKE_GIT_REV=${SPIKE_GIT_REV:-"<spike!>"}
PK_GIT_URL=${PK_GIT_URL:-<pk>}
PK_GIT_REV=${PK_GIT_REV:-<pk!>}

if [ -z "${JOBS:-}" ]; then
    JOBS=$(nproc)
fi
"""

WINDOWS = (
    "\ufeff# Saved by an editor on Windows\r\n\r\n"
    "llvm_url=<llvm>\r\nllvm_rev=<llvm!>\r\n"
    "triton_url=<triton>\r\ntriton_rev=<triton!>\t# three point six\r\n"
    "triton_shared_url=<triton_shared>\r\ntriton_shared_rev=<triton_shared!>\r\n"
    "spike_url=<spike>\r\nspike_rev=<spike!>\r\n"
    "proxy_kernel_url=<pk>\r\nproxy_kernel_rev=<pk!>"
)

NAMES = """\
# Revisions by name: a tag, a branch, a short revision, a full ref.
LLVM_REPOSITORY=<llvm>
LLVM_REF=main
TRITON_REPOSITORY=<triton>
TRITON_TAG=refs/heads/main
TRITON_SHARED_REPOSITORY=<triton_shared>
TRITON_SHARED_BRANCH=main
SPIKE_REPOSITORY=<spike>
SPIKE_REV=<spike!7>
PK_REPOSITORY=<pk>
PK_CHECKOUT_REF=origin/main
"""

PREFIXED = """\
# --------------------------------------------------------------------
# tnpu toolchain
# --------------------------------------------------------------------
LLVM_SHA=<llvm~>
LLVM_SHA=<llvm!>          # moved, the line above is the old one

TNPU_LLVM23_REPO_URL=<llvm>
SHA_TRITON=<triton!>
URL_TRITON=<triton>
PLUGIN_REPO=<triton_shared>
PLUGIN_SHA=<triton_shared!>
SIMULATOR_GIT=<spike>
SIMULATOR_GIT_SHA=<spike!>
SPIKE_PREBUILT_SHA=<spike~>
PK="<pk>@<pk!>"
LLVM_DIR=/workspace/llvm-install
CC=${CC:-clang}
function note() {
  NOTE_SHA=0000000000000000000000000000000000000000
}
cat > /dev/null <<'END'
TRITON_SHA=0000000000000000000000000000000000000000
END
"""

COMPACT = """\
L=<llvm!>; LLVM_SHA=$L LLVM_URL=<llvm>
T_='<triton!>' && TRITON_SHA=${T_} && TRITON_URL=<triton>
BASE=<base>/; TRITON_SHARED_URL=${BASE}triton-shared
TRITON_SHARED_SHA="<triton_shared!>"
SPIKE_URL=$BASE
SPIKE_URL+=riscv-isa-sim.git
SPIKE_SHA=\\
<spike!>
PK_URL=${BASE}riscv-pk.git/ PK_SHA=<pk!>#
PK_SHA=${PK_SHA:0:40}
"""

STYLES = {
    "lab": LAB,
    "exports": EXPORTS,
    "defaults": DEFAULTS,
    "windows": WINDOWS,
    "names": NAMES,
    "prefixed": PREFIXED,
    "compact": COMPACT,
}

# thirdparty/triton-npu.json, which is no file of pins.
HARNESS = """\
{
  "triton_npu": {
    "repository": "lab/triton-npu",
    "ref": "e686799e4681c9e01151e3d8237867c55ba285dd",
    "release_tag": "toolchain-llvm23"
  }
}
"""
