"""`tnpu-nix import`: from the files that held the pins before pins.toml.

versions.env ──shellwords──▶ words ──shellfile──▶ variables ─┐
*.json ──────────────────────legacy──────────────────────────┴─▶ placing, buildoptions
    ──▶ drafting (one draft per pin) ──▶ importing (resolve, prefetch, write as one transaction)
"""
