"""Everything that a machine without GitHub needs to run the whole pipeline."""
