"""Statements of `paimon_spark.sql`: what a session without our catalog (Spark Connect) understands all the same."""
