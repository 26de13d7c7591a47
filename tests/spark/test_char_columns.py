"""CHAR(n) compares as padded by every entry point, whether files hold it padded or not; rows stay as they are."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark import PaimonTable
from tests.support.plain_source import write_plain

pytestmark = pytest.mark.spark

KINDS: dict[str, dict[str, str]] = {
    "append": {},
    "keyed": {"primary-key": "c", "bucket": "1"},
    "partitioned": {"partition": "c"},
}


EXPECTED = {"c = 'A'": [1], "c IN ('B ', 'é')": [2, 3], "v <> 'x'": [3], "v > 'x'": [3], "c < 'B'": [1]}
"""Conditions, and the ids of the rows for which they are true."""


def make(spark: SparkSession, path: str, options: dict[str, str]) -> PaimonTable:
    """A table with padded and bare values of CHAR columns, as SQL and as Java write them."""
    table = PaimonTable.create(spark, path, "id INT, c CHAR(4), v CHAR(3)", options=options)
    for values in ([(1, "A   ", "x")], [(2, "B", "x  "), (3, "é", "y")]):
        ids, codes, texts = zip(*values, strict=True)
        write_plain(path, pa.record_batch({"id": pa.array(ids, pa.int32()), "c": codes, "v": texts}))
    return table


def ids(rows: DataFrame) -> list[int]:
    return sorted(row.id for row in rows.collect())


def stored(path: str, column: str) -> set[str]:
    """Values of a column in the files of the table."""
    files = Path(path).rglob("data-*.parquet")
    return {value for file in files for value in pq.ParquetFile(file).read(columns=[column]).column(0).to_pylist()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("entry_point", ["load", "to_df", "catalog"])
def test_every_entry_point_pads_and_compares_padded(
    spark: SparkSession, tmp_path: Path, kind: str, entry_point: str
) -> None:
    path = str(tmp_path / "db.db" / "t")
    table = make(spark, path, KINDS[kind])
    catalog = f"chars_{kind}_{entry_point}"
    paimon_spark.register_catalog(spark, catalog, warehouse=str(tmp_path))
    assert stored(path, "v") == {"x", "x  ", "y"}
    entry_points: dict[str, Callable[..., DataFrame]] = {
        "load": lambda **o: spark.read.format("paimon").options(**o).load(path),
        "to_df": table.to_df,
        "catalog": lambda: spark.table(f"{catalog}.db.t"),
    }
    load = entry_points[entry_point]
    rows = load()
    assert sorted(map(tuple, rows.select("id", "c", "v").collect())) == [
        (1, "A   ", "x  "), (2, "B   ", "x  "), (3, "é   ", "y  ")
    ]  # fmt: skip
    assert [ids(rows.where(text)) for text in EXPECTED] == list(EXPECTED.values())
    if entry_point != "catalog":
        assert [ids(load(filter=text)) for text in EXPECTED] == list(EXPECTED.values())


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_changed_rows_are_those_that_compare_equal(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "db.db" / "t")
    table = make(spark, path, KINDS[kind])
    table.update({"id": "id + 10"}, where="c = 'B' AND v = 'x'")
    assert ids(table.to_df()) == [1, 3, 12]
    before = stored(path, "c")
    table.delete("c = 'A'")
    assert ids(table.to_df()) == [3, 12]
    table.delete("c IN ('é', 'Z')")
    assert ids(table.to_df()) == [12]
    assert stored(path, "c") == before == {"A   ", "B", "é"}  # no key became another
    paimon_spark.sql(spark, "DELETE FROM chars.db.t WHERE c = 'B'", warehouse=str(tmp_path), catalog="chars")
    assert ids(table.to_df()) == []


@pytest.mark.thorough
def test_values_that_are_not_changed_stay_as_they_are_stored(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "db.db" / "t")
    table = make(spark, path, {})
    statement = "UPDATE chars.db.t SET id = 20 WHERE c = 'B'"
    paimon_spark.sql(spark, statement, warehouse=str(tmp_path), catalog="chars")
    table.update({"v": "'z'"}, where="c = 'é'")
    rows: list[Any] = table.to_df().select("id", "v").collect()
    assert sorted(map(tuple, rows)) == [(1, "x  "), (3, "z  "), (20, "x  ")]
    assert stored(path, "c") == {"A   ", "B", "é"}


def test_every_entry_point_writes_padded(spark: SparkSession, tmp_path: Path) -> None:
    """So a key that is written by two entry points is one key."""
    path = str(tmp_path / "db.db" / "t")
    paimon_spark.register_catalog(spark, "padding", warehouse=str(tmp_path))
    for kind, options in KINDS.items():
        path = str(tmp_path / "db.db" / kind)
        table = PaimonTable.create(spark, path, "id INT, c CHAR(4), v CHAR(3)", options=options)
        rows = spark.createDataFrame([(1, "B", "x")], "id INT, c STRING, v STRING")
        rows.write.format("paimon").mode("append").save(path)
        table.append(rows)
        rows.writeTo(f"padding.db.{kind}").append()
        spark.sql(f"INSERT INTO padding.db.{kind} VALUES (1, 'B', 'x')")
        assert (stored(path, "c"), stored(path, "v")) == ({"B   "}, {"x  "}), kind
        assert table.to_df().count() == (1 if kind == "keyed" else 4)
