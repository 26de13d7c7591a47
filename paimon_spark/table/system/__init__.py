"""System tables: metadata of a table as rows, such as ``t$snapshots``."""
