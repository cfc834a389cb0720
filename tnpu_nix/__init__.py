"""tnpu-nix: one pin per upstream, turned into Nix derivations and an OCI image."""

__version__ = "0.1.0"
