"""Spark jobs: shuffled writes, compaction, orphan files, rewritten rows."""
