"""The Spark integration: the only package that imports pyspark."""
