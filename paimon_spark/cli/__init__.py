"""The command line: ``python -m paimon_spark`` or ``paimon-spark``, without Spark."""
