"""Try statements and acceptance cases with the PySpark of this interpreter; write what came of them as JSON.

PYTHONPATH=. .venvs/pyspark40/bin/python tests/matrix/run_here.py OUT.json [--short] [--cases CASE.slt …]
PYTHONPATH=. .venvs/pyspark40/bin/python tests/matrix/run_here.py OUT.json --connect --cases CASE.slt …
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from tests.matrix.statement import Statement


def start() -> SparkSession:
    """A session like that of the tests."""
    from pyspark.sql import SparkSession

    options = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    builder = SparkSession.builder.master("local[2]").appName("matrix")
    spark = builder.config(map=options).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def outcomes(spark: SparkSession, warehouse: str, statements: Iterable[Statement]) -> dict[str, str]:
    """What came of each statement, by the text that shows it."""
    from tests.matrix.statement import Session

    session = Session(spark, warehouse)
    try:
        return {statement.shown: session.outcome(statement) for statement in statements}
    finally:
        spark.sql("USE spark_catalog.default")


def failures(spark: SparkSession, folder: str, cases: list[str]) -> dict[str, str | None]:
    """What failed of each acceptance case; None where it holds."""
    import paimon_spark
    from tests.acceptance.run import run_file
    from tests.support.acceptance_backend import Backend

    warehouse = f"{folder}/acceptance"
    paimon_spark.register_catalog(spark, "c", warehouse=warehouse)
    backend = Backend(spark, warehouse, f"{folder}/checkpoints")
    return {Path(case).stem: run_file(backend, case)[1] for case in cases}


def on_classic(folder: str, *, short: bool, cases: list[str]) -> dict[str, Any]:
    """What came of the statements and the cases on a classic session."""
    from tests.matrix.statements import STATEMENTS, short_statements

    spark = start()
    result: dict[str, Any] = {"version": spark.version}
    result["statements"] = outcomes(spark, f"{folder}/matrix", short_statements() if short else STATEMENTS)
    if cases:
        result["cases"] = failures(spark, folder, cases)
    spark.stop()
    return result


def on_connect(folder: str, cases: list[str]) -> dict[str, Any]:
    """What came of the cases on Spark Connect; the server is of this PySpark, too."""
    from pyspark.sql import SparkSession

    from tests.support.connect_server import connect_server

    with connect_server(Path(folder)) as url:
        spark = SparkSession.builder.remote(url).config("spark.sql.session.timeZone", "UTC").getOrCreate()
        found = {"version": spark.version, "cases": failures(spark, folder, cases)}
        spark.stop()
    return found


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--short", action="store_true", help="only the statements that CI tries on every version")
    parser.add_argument("--connect", action="store_true", help="the cases alone, on Spark Connect")
    parser.add_argument("--cases", nargs="+", default=[], type=os.path.abspath, help="acceptance cases")
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["TZ"] = "UTC"
    time.tzset()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.connect:
            result = on_connect(folder, arguments.cases)
        else:
            result = on_classic(folder, short=arguments.short, cases=arguments.cases)
    arguments.out.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
