"""Spark's SQL as tokens and trees, and the grammars of statements that Spark's own parser does not know."""
