"""The commands: each calls one module and prints."""
