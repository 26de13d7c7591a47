"""Commit messages become manifest entries, a conflict check and an atomically published snapshot."""
