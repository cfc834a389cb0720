"""Write closureInfo's files from the closure that Nix put into .attrs.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(attrs: Path, out: Path) -> None:
    """Write `store-paths` and `registration` below `out`.

    The registration is what `nix-store --load-db` reads: per path, one line each for path,
    NAR hash, NAR size, deriver (left empty), number of references, and the references.
    """
    closure = sorted(json.loads(attrs.read_text())["closure"], key=lambda item: item["path"])
    registration = [
        line
        for item in closure
        for line in (
            item["path"],
            item["narHash"],
            str(item["narSize"]),
            "",
            str(len(item["references"])),
            *item["references"],
        )
    ]
    out.mkdir()
    (out / "store-paths").write_text("".join(f"{item['path']}\n" for item in closure))
    (out / "registration").write_text("".join(f"{line}\n" for line in registration))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
