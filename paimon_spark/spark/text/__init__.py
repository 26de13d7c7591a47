"""Statements of `paimon_spark.sql`, parsed with sqlglot, for sessions without our catalog (Spark Connect)."""
