"""Where `tnpu-nix` and `python -m tnpu_nix` start."""

import sys


def main() -> None:
    """Run the command; the one that has next to nothing to do, without loading the others."""
    if sys.argv[1:3] == ["image", "ensure"]:
        from tnpu_nix import quick

        if quick.answered(sys.argv[3:]):
            return
    from tnpu_nix.cli import main as command

    command(prog_name="tnpu-nix")


if __name__ == "__main__":
    main()
