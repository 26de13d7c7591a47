"""What EXPLAIN says of a query."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession


def explained(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def calls_of(spark: SparkSession, query: str) -> int:
    """Calls from Python to the JVM while a query is analysed, optimised and planned; not those that release objects."""
    from py4j.clientserver import ClientServerConnection

    sent = ClientServerConnection.send_command
    count = 0

    def counting(self: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal count
        count += not str(arguments[0]).startswith("m\nd\n")
        return sent(self, *arguments, **options)

    spark.sql(query)._jdf.queryExecution().executedPlan()  # what is looked up once is looked up
    ClientServerConnection.send_command = counting
    try:
        frame = spark.sql(query)
        frame._jdf.queryExecution().executedPlan()
    finally:
        ClientServerConnection.send_command = sent
    return count
