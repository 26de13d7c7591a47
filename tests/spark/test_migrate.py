"""Directories and tables of Spark's catalog become Paimon tables, as Java reads them; failures leave the source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from paimon_spark import DataError, OptionError, PaimonError, PaimonTable, SchemaError
from paimon_spark.maintain import migration
from paimon_spark.spark.jobs import copies
from tests.support.warehouses import FRONTS, Run, run_by, session_of

pytestmark = pytest.mark.spark
QUERY = (
    "SELECT id AS k, concat('v', id) AS v, decimal(id) / 2 AS d, array(id) AS a, named_struct('x', int(id)) AS s, "
    "date_add(DATE'2024-01-01', int(id)) AS day, timestamp_ntz'2024-01-01 10:00:00.5' AS n, id % 2 = 0 AS b, "
    "nullif(int(id % 3), 2) AS p, concat('a/', id % 2) AS q FROM range(20)"
)


@pytest.fixture(scope="module")
def session(spark: SparkSession, warehouse: Path) -> SparkSession:
    """A session that knows the same warehouse under the same name by both fronts."""
    return session_of(spark, "mi", warehouse)


@pytest.fixture(params=FRONTS)
def run(session: SparkSession, request: pytest.FixtureRequest) -> Run:
    """Runs a statement by one of the two fronts."""
    return run_by(session, request.param)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def files(path: Path) -> dict[str, int]:
    return {str(file.relative_to(path)): file.stat().st_ino for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "json", "csv"])
def test_a_partitioned_directory(
    session: SparkSession, oracle: Any, warehouse: Path, tmp_path: Path, file_format: str
) -> None:
    source, target = tmp_path / "source", warehouse / "db.db" / f"from_{file_format}"
    columns = ["k", "v", "p", "q"] if file_format in ("csv", "orc") else ["k", "v", "a", "s", "b", "p", "q"]
    wanted = session.sql(QUERY).select(*columns, *(["d", "day", "n"] if file_format == "parquet" else []))
    writer = wanted.repartition(2).write.partitionBy("p", "q").option("header", "true")
    writer.format(file_format).save(str(source))
    nodes = {node for name, node in files(source).items() if name.endswith(f".{file_format}")}
    expected = rows(session.read.option("header", "true").format(file_format).load(str(source)))
    options = {"header": "true"} if file_format == "csv" else {}
    table = PaimonTable.migrate(session, str(source), str(target), source_type=file_format, read_options=options)
    assert rows(table.to_df()) == expected
    assert not source.exists()
    taken = {node for name, node in files(target).items() if "bucket-0" in name}
    assert (taken == nodes) == (file_format in ("parquet", "orc")), "files are taken over, not written"
    assert len(oracle.read(str(target)).to_pylist()) == 20
    names = table.to_df().columns
    keys = sorted(str(row[names.index("k")]) for row in expected)
    assert sorted(str(row["k"]) for row in oracle.read(str(target)).to_pylist()) == keys
    assert rows(table.to_df(filter="p = 1")) == [row for row in expected if row[names.index("p")] == 1]
    oracle.compact(str(target), options={"compaction.min.file-num": 2})
    assert rows(table.to_df()) == expected
    table.append(table.to_df().limit(1))
    assert table.to_df().count() == 21


def test_tables_of_the_sessions_catalog(session: SparkSession, run: Run, warehouse: Path, tmp_path: Path) -> None:
    session.sql("DROP TABLE IF EXISTS mi.old.managed")
    session.sql("CREATE DATABASE IF NOT EXISTS spark_catalog.old")
    session.sql(f"CREATE TABLE spark_catalog.old.managed USING parquet PARTITIONED BY (q) AS {QUERY}")
    expected = rows(session.table("spark_catalog.old.managed"))
    called = "CALL mi.sys.migrate_table(source_type => 'hive', table => 'old.managed', options_map => map('a.b', 'c'))"
    assert rows(run(called)) == [(True,)]
    assert rows(session.table("mi.old.managed")) == expected
    assert not session.catalog.tableExists("spark_catalog.old.managed")
    # a table that stays, whose times are in a form of their own
    location = tmp_path / "external"
    session.sql(
        f"CREATE TABLE spark_catalog.old.kept USING parquet LOCATION '{location}' AS "
        "SELECT id, timestamp'2024-01-01 10:00:00' AS t FROM range(3)"
    )
    before = files(location)
    run("CALL mi.sys.migrate_table('hive', 'old.kept', delete_origin => false, target_table => 'db.came')").collect()
    assert rows(session.table("mi.db.came")) == rows(session.table("spark_catalog.old.kept"))
    assert files(location) == before
    with pytest.raises((PySparkException, PaimonError), match="is a Paimon table already"):
        run("CALL mi.sys.migrate_table('hive', 'old.kept', target_table => 'db.came')").collect()
    assert files(location) == before
    session.sql("DROP TABLE mi.db.came")
    session.sql("DROP TABLE spark_catalog.old.kept")


def test_a_database(session: SparkSession, run: Run, warehouse: Path, tmp_path: Path) -> None:
    source = tmp_path / "lake"
    session.sql("DROP DATABASE IF EXISTS mi.lake CASCADE")
    for name in ("one", "two"):
        session.range(5).write.parquet(str(source / name))
    (source / "three").mkdir()
    text = "migrate database is finished, success cnt: 2 , failed cnt: 1"
    assert rows(run(f"CALL mi.sys.migrate_database(source_type => 'parquet', database => '{source}')")) == [(text,)]
    assert session.table("mi.lake.two").count() == 5
    assert sorted(path.name for path in source.iterdir()) == ["three"]
    with pytest.raises((PySparkException, PaimonError), match="source_type 'delta' is not supported"):
        run(f"CALL mi.sys.migrate_database('delta', '{source}')").collect()


def test_a_failure_leaves_the_source_as_it_was(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    session.sql(QUERY).repartition(3).write.partitionBy("p").parquet(str(source))
    before = files(source)
    bring, brought = migration.bring, []

    def half(io: Any, one: str, other: str, *, link: bool) -> None:
        if len(brought) > 3:
            raise PermissionError("no more")
        brought.append(other)
        bring(io, one, other, link=link)

    with monkeypatch.context() as patch:
        patch.setattr(migration, "bring", half)
        with pytest.raises(PermissionError, match="no more"):
            PaimonTable.migrate(session, str(source), str(target), parallelism=1)
    assert (files(source), target.exists()) == (before, False)
    with monkeypatch.context() as patch:
        patch.setattr(copies, "footers_that_fit", lambda *_, **__: None)
        patch.setattr(copies, "undo_create", lambda *_: None)
        PaimonTable.migrate(session, str(source), str(target), delete_origin=False)
    assert files(source) == before
    with pytest.raises(SchemaError, match="is a Paimon table already"):
        PaimonTable.migrate(session, str(source), str(target))
    with pytest.raises(OptionError, match="must not lie in its source"):
        PaimonTable.migrate(session, str(source), str(source / "p=9"))
    with pytest.raises(OptionError, match="bucket"):
        PaimonTable.migrate(session, str(source), str(tmp_path / "keyed"), options={"bucket": "2", "bucket-key": "k"})
    (source / "p=0" / "link.parquet").symlink_to(next((source / "p=1").glob("*.parquet")))
    with pytest.raises(DataError, match="is a link"):
        PaimonTable.migrate(session, str(source), str(tmp_path / "linked"))
    (source / "p=0" / "link.parquet").unlink()
    session.range(1).selectExpr("id AS other").write.mode("append").parquet(str(source / "p=0"))
    with pytest.raises(DataError, match="columns that the table would not have"):
        PaimonTable.migrate(session, str(source), str(tmp_path / "more"))
    assert set(files(source)) > set(before)
    assert not (tmp_path / "more").exists()
