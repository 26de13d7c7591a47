"""A statement whose commit is lost for certain leaves no file; one whose commit may have taken place keeps all."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.commit import file_store_commit
from paimon_spark.errors import CommitConflictError, CommitStateUnknownError
from paimon_spark.spark.source.table_write import planned
from paimon_spark.spark.source.writer import PaimonWriter
from paimon_spark.table.table import load_table
from tests.support.commits import files_below

pytestmark = [pytest.mark.spark, pytest.mark.catalog("lost", current=True, by_text=True)]

_numbers = itertools.count()
VECTORS = {"deletion-vectors.enabled": "true"}
DATA_EVOLUTION = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", **VECTORS}
KINDS = {
    "append": {},
    "vectors": VECTORS,
    "data_evolution": DATA_EVOLUTION,
    "fixed": {"primary-key": "k", "bucket": "2"},
    "dynamic": {"primary-key": "k"},
    "postponed": {"primary-key": "k", "bucket": "-2"},
    "pending": {"primary-key": "k", "bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
}
MERGE = """MERGE INTO {t} t USING (SELECT 1 AS k, 'm' AS v UNION ALL SELECT 9, 'n') s ON t.k = s.k
WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"""
STATEMENTS = {
    "insert of local rows": "INSERT INTO {t} VALUES (5, 'e')",
    "insert of a query": "INSERT INTO {t} SELECT CAST(id AS INT), string(id) FROM range(10, 30, 1, 2)",
    "overwrite": "INSERT OVERWRITE {t} SELECT CAST(id AS INT), string(id) FROM range(10, 30, 1, 2)",
    "update": "UPDATE {t} SET v = 'u' WHERE k = 1",
    "delete": "DELETE FROM {t} WHERE k = 1",
    "merge": MERGE,
}


def _made(spark: SparkSession, kind: str) -> str:
    name = f"t{next(_numbers)}"
    options = {"write-only": "true", "commit.max-retries": "0", **KINDS[kind]}
    listed = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
    spark.sql(f"CREATE TABLE {name} (k INT, v STRING) TBLPROPERTIES ({listed})")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    return name


def _lost(*_given: Any, **_named: Any) -> bool:
    return False


def _unclear(*_given: Any, **_named: Any) -> bool:
    raise CommitStateUnknownError("the store gave no clear answer")


@pytest.mark.parametrize(
    ("front", "kind"), [*(("catalog", kind) for kind in KINDS), ("text", "append"), ("text", "fixed")]
)
def test_a_lost_statement_leaves_no_file(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch, front: str, kind: str
) -> None:
    name = _made(spark, kind)
    run: Callable[[str], Any] = spark.sql if front == "catalog" else lambda text: paimon_spark.sql(spark, text)
    path = warehouse / "db.db" / name
    before = files_below(path)
    monkeypatch.setattr(file_store_commit, "publish_snapshot", _lost)
    for statement, text in STATEMENTS.items():
        if kind == "pending" and statement in ("update", "delete", "merge"):
            continue  # postponed rows are seen by no statement
        with pytest.raises(Exception, match="commit conflicts between multiple jobs"):
            run(text.format(t=name))
        assert files_below(path) == before, statement


def test_lost_methods_and_compactions_leave_no_file(
    spark: SparkSession, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending, fixed = _made(spark, "pending"), _made(spark, "fixed")
    rows = spark.sql("SELECT CAST(id AS INT) AS k, string(id) AS v FROM range(10, 30, 1, 2)")
    deeds: list[tuple[str, Callable[[PaimonTable], Any]]] = [
        (fixed, lambda table: table.append(rows)),
        (fixed, lambda table: table.overwrite(rows)),
        (fixed, lambda table: rows.write.format("paimon").mode("append").save(table.path)),
        (fixed, lambda table: table.compact(compact_strategy="full")),
        (pending, lambda table: table.compact()),
    ]
    monkeypatch.setattr(file_store_commit, "publish_snapshot", _lost)
    for number, (name, deed) in enumerate(deeds):
        path = warehouse / "db.db" / name
        before = files_below(path)
        with pytest.raises(Exception, match="commit conflicts between multiple jobs"):
            deed(PaimonTable.for_path(spark, str(path)))
        assert files_below(path) == before, number


@pytest.mark.parametrize("unclear", [False, True])
def test_the_plain_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, unclear: bool) -> None:
    rows = pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]})
    path = str(tmp_path / "d.db" / "t")
    paimon_spark.create_table(path, rows.schema, write_only=True, commit__max_retries=0).append(rows)
    table = load_table(path)
    before = files_below(path)
    writer = PaimonWriter(planned(table, rows.schema))
    message = writer.write(iter(rows.to_batches()))
    assert files_below(path) > before
    monkeypatch.setattr(file_store_commit, "publish_snapshot", _unclear if unclear else _lost)
    with pytest.raises(CommitStateUnknownError if unclear else CommitConflictError):
        writer.commit([message])
    assert bool({name for name in files_below(path) - before if "data-" in name}) == unclear
