"""`python -m tnpu_nix` is `tnpu-nix`."""

from tnpu_nix.cli import main

main(prog_name="tnpu-nix")
