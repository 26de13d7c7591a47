"""System tables: what a table tells of itself as rows, ``t$snapshots`` and its siblings."""
