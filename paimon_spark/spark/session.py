"""Making a Spark session know the format ``paimon``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from paimon_spark.errors import PaimonError
from paimon_spark.spark.data_source import PaimonDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROBE = "import paimon_spark.commit.file_store_commit"  # pulls in whatever tasks need besides PySpark
_HINT = (
    "set the environment variable PYSPARK_PYTHON to this interpreter before the session starts: "
    "os.environ['PYSPARK_PYTHON'] = sys.executable"
)


def register(spark: SparkSession) -> None:
    """Make ``format("paimon")`` known to a session, classic or Connect. Calling it again does no harm.

    An installed package is found by Spark without it.

    Args:
        spark: the session.

    Raises:
        PaimonError: the Python that Spark starts for its workers has no paimon_spark; the message says what to set.
    """
    _check_workers(spark)
    try:
        spark.dataSource.register(PaimonDataSource)
    except PySparkException as error:
        # Spark 4.0 refuses a name that it has found by itself (`pyspark_paimon`), which is then this very source.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    activate(spark)


def activate(spark: SparkSession) -> None:
    """Let the thread that calls this find the format: in a new thread, Spark looks for Python sources in no session."""
    if getattr(spark, "_sc", None) is not None and type(spark).getActiveSession() is None:
        spark.createDataFrame([], "unused int")  # makes the session the thread's active one, as any query would


def _check_workers(spark: SparkSession) -> None:
    """Look whether the workers of a local session can import what they are going to be sent."""
    context = getattr(spark, "_sc", None)  # a Connect session has none
    if context is None or not str(context.master).startswith("local"):
        return
    python = shutil.which(context.pythonExec)
    if python is None:
        raise PaimonError(f"Spark's Python workers are to run '{context.pythonExec}', which is not there: {_HINT}")
    if os.path.abspath(python) == os.path.abspath(sys.executable):
        return
    check = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, check=False)
    if check.returncode:
        reason = check.stderr.strip().splitlines()[-1:] or ["it ends without a word"]
        raise PaimonError(
            f"Spark's Python workers run {python}, where paimon_spark cannot be imported ({reason[0]}), while this is "
            f"{sys.executable}: {_HINT}"
        )
