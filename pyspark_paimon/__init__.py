"""Found by Spark itself: it looks into every installed module named ``pyspark_*`` for a ``DefaultSource``.

That is what makes ``format("paimon")`` work without :func:`paimon_spark.register` once the wheel is installed.
"""

from paimon_spark.spark.source.data_source import PaimonDataSource as DefaultSource

__all__ = ["DefaultSource"]
