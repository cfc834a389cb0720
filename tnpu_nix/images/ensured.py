"""What it took to have an image in a registry."""

from __future__ import annotations

from dataclasses import dataclass, field

from tnpu_nix.terminal import size_text

PRESENT, ABSENT = "present", "absent"


@dataclass(frozen=True)
class Ensured:
    """What it took to have the image in the registry."""

    action: str  # "present", how it came to be there ("pulled", "built", "pushed"), or "absent"
    tag: str
    image: str  # host/name:tag
    digest: str  # of the manifest; empty where there is none
    built: list[str] = field(default_factory=list)  # derivations
    fetched: list[str] = field(default_factory=list)  # store paths from a binary cache
    layers_uploaded: int = 0
    bytes_uploaded: int = 0

    def line(self) -> str:
        """Return what happened, for people."""
        if self.action == PRESENT:
            return "present: nothing was built or pushed"
        if self.action == ABSENT:
            return "absent: it would be taken from the binary cache or built, and pushed"
        ways = {
            "built": f"built {len(self.built)} derivations"
            + (f", pulled {len(self.fetched)} store paths" if self.fetched else ""),
            "pulled": f"pulled {len(self.fetched)} store paths from the binary cache",
            "pushed": "the store had it",
        }
        return (
            f"{ways[self.action]}; pushed {self.layers_uploaded} layers,"
            f" {size_text(self.bytes_uploaded)}"
        )
