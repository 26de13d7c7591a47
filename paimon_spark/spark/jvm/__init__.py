"""The SQL catalog of a classic session: Spark's JVM interfaces answered in Python through py4j."""
