"""The methods of Spark Connect sessions, which take names of Paimon tables as `paimon_spark.sql` does."""
