"""Apache Paimon for PySpark, in pure Python."""
