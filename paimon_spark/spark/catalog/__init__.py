"""The SQL catalog of a classic session: Spark's DataSource V2 interfaces, answered in Python."""
