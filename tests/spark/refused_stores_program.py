"""What a Connect client is told of stores that it cannot use. Arguments: the server's address, cases as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

import paimon_spark


def fronts(spark: SparkSession, root: str, options: dict[str, str]) -> dict[str, Callable[[], DataFrame]]:
    """Ways to read a table below a warehouse."""
    return {
        "format": lambda: spark.read.format("paimon").options(**options).load(f"{root}/d.db/t"),
        "text": lambda: paimon_spark.sql(spark, "SELECT * FROM d.t", warehouse=root, **options),
    }


def told(run: Callable[[], object]) -> str:
    """The error of a statement, or of the action of its query."""
    try:
        found = run()
        return f"no error, but {found.collect() if isinstance(found, DataFrame) else found}"
    except Exception as error:  # noqa: BLE001 - of any class
        return str(error)


def main(address: str, cases: list[tuple[str, dict[str, str]]]) -> None:
    spark = SparkSession.builder.remote(address).getOrCreate()
    paimon_spark.register(spark)
    print(json.dumps([{name: told(run) for name, run in fronts(spark, *case).items()} for case in cases]))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
