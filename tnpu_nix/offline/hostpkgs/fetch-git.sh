# Clone $url at $rev into $out. Run by fetch.nix, in a sandbox that has the network.
need /usr/bin/git
export GIT_SSL_CAINFO=${GIT_SSL_CAINFO:-$cacert} HOME=$NIX_BUILD_TOP GIT_TERMINAL_PROMPT=0

fetch() {
    git -c init.defaultBranch=main init --quiet "$out"
    cd "$out"
    git remote add origin "$url"
    # Not every server hands out a single revision; a full fetch always has it.
    if [[ -n $deepClone ]] || ! git fetch --quiet --depth 1 origin "$rev" 2>/dev/null; then
        git fetch --quiet --tags origin '+refs/heads/*:refs/remotes/origin/*' || return 1
    fi
    git -c advice.detachedHead=false checkout --quiet "$rev" 2>/dev/null \
        || git -c advice.detachedHead=false checkout --quiet FETCH_HEAD || return 1
    [[ -z $fetchSubmodules ]] || git submodule --quiet update --init --recursive || return 1
    [[ -z $fetchLFS ]] || git lfs pull || return 1
}

fetch || die "cannot fetch revision $rev of $url" \
    "put it into the store first: tnpu-nix bump <name> $rev, or nix-prefetch-git $url $rev"
[[ -n $leaveDotGit ]] || find "$out" -name .git -prune -exec rm -rf {} +
