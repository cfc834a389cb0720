"""The one exception that reaches users: what failed, why, and what to do next."""

from tnpu_nix.terminal import printable, uncoloured


class TnpuError(Exception):
    """A failure that a user can act on.

    Attributes:
        what: one line, what failed and why.
        hint: one line, what to do next.
        details: lines that stand before the two (every fault of a file, the end of a log).
        said: all that the program behind it said, for --debug.
    """

    def __init__(self, what: str, hint: str, details: tuple[str, ...] = (), said: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.details = details
        self.said = said

    def render(self) -> str:
        """Return the text for standard error: the details, then the error, then the hint."""
        what = " ".join(self.what.split())
        hint = " ".join(self.hint.split())
        details = (uncoloured(line) for text in self.details for line in text.split("\n"))
        lines = [*details, f"tnpu-nix: error: {what}", f"  hint: {hint}"]
        return "\n".join(printable(line) for line in lines)
