"""The binary cache: filling it, reading it, checking it, and keeping what is still pinned."""
