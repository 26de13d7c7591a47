"""Compaction: which files of a bucket are rewritten together, the rewriting, and the COMPACT commit."""
