"""The acceptance cases (SQL and what it must give, checked on the official connector) hold on a classic session.

A case that needs what is not built yet stands in `NOT_YET` with the reason and a text of the failure it must show; it
fails the test on the day it starts to hold.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import paimon_spark
from tests.acceptance.cases import CASES, FILES, GROUPS, NOT_YET
from tests.acceptance.run import run_file
from tests.support.acceptance_backend import Backend, utc_clocks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def backend(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A session of its own with a warehouse of its own, all clocks in UTC."""
    session = spark.newSession()
    warehouse = str(tmp_path_factory.mktemp("acceptance"))
    paimon_spark.register(session)
    paimon_spark.register_catalog(session, "c", warehouse=warehouse)
    session.conf.set("spark.sql.shuffle.partitions", "2")
    with utc_clocks():
        yield Backend(session, warehouse, str(tmp_path_factory.mktemp("checkpoints")))
    shutil.rmtree(warehouse, ignore_errors=True)
    paimon_spark.register(spark)  # makes it the thread's active session again


@pytest.mark.thorough
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_case(backend: Backend, path: Path) -> None:
    steps, failure = run_file(backend, str(path))
    if path.stem in NOT_YET:
        reason, text = NOT_YET[path.stem]
        assert failure is not None, f"{path.stem} holds now ({reason}): take it off the list"
        assert re.search(text, failure, re.I | re.S), f"fails, but not for the reason given ({reason}): {failure}"
    else:
        assert failure is None, failure
        assert steps > 0


class StatementSession:
    """A session whose ``sql`` is `paimon_spark.sql`, as on Connect."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def sql(self, statement: str) -> DataFrame:
        return paimon_spark.sql(self._spark, statement)


@pytest.fixture(scope="module")
def statements(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Backend:
    """The same with `paimon_spark.sql`, which a Connect session has instead of the catalog."""
    session, warehouse = backend.spark.newSession(), str(tmp_path_factory.mktemp("statements"))
    paimon_spark.sql(session, "SELECT 1", warehouse=warehouse, catalog="c")
    return Backend(StatementSession(session), warehouse, backend.checkpoints)


_BY_STATEMENTS = ("an_audit", "sy_tables", "sy_metadata_columns", "se_types")


@pytest.mark.thorough
@pytest.mark.parametrize("name", [*_BY_STATEMENTS, "mg_by_source", "mg_clauses"])
def test_case_by_statements(statements: Backend, name: str) -> None:
    steps, failure = run_file(statements, str(CASES / f"{name}.slt"))
    assert failure is None, failure
    assert steps > 0


def test_every_group_has_cases() -> None:
    assert {path.stem.split("_")[0] for path in FILES} == set(GROUPS)
    assert set(NOT_YET) <= {path.stem for path in FILES}
