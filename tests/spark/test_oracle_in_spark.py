"""Errors of the oracle's JVM are reported as they are while a Spark session runs in the same process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, NumberFormatException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.turns("program")
@pytest.mark.oracle
def test_errors_of_both_jvms_are_their_own(spark: SparkSession, oracle: Any) -> None:
    java = spark._jvm
    assert java is not None
    held = [java.java.util.ArrayList() for _ in range(2000)]
    first = min(int(one._target_id[1:]) for one in held)
    for _ in range(50_000):  # objects of both JVMs have numbers, and the next ones are those of Spark's lists,
        if int(oracle.gw.jvm.java.util.ArrayList()._target_id[1:]) >= first:
            break  # unless this process has asked Spark for very many: each costs a call
    for _ in range(3):
        with pytest.raises(Py4JJavaError, match="NumberFormatException"):
            oracle.gw.jvm.java.lang.Integer.parseInt("x")
    with pytest.raises(NumberFormatException):
        java.java.lang.Integer.parseInt("x")
    with pytest.raises(AnalysisException, match="nope"):
        spark.sql("SELECT nope").collect()
