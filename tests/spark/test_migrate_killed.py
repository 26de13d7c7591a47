"""A migration that is killed at any call of the store loses no row, and the next one says what to do. No JVM."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import IntegerType, StringType, StructType

from paimon_spark.errors import SchemaError
from paimon_spark.maintain.migration import list_source
from paimon_spark.spark.jobs.copies import MigrationSource
from paimon_spark.spark.jobs.copies import migrate as migrate_source
from paimon_spark.storage.file_io import LocalFileIO
from paimon_spark.table.table import load_table, table_exists
from tests.support.history import rows
from tests.support.interrupting import killed_at_every_call, killed_at_random, with_a_rival

COLUMNS = StructType().add("k", IntegerType()).add("v", StringType())
ROWS = {1: "a", 2: "b", 3: "c"}


def add_file(directory: Path, name: str, given: dict[int, str]) -> None:
    (directory / "source").mkdir(parents=True, exist_ok=True)
    columns = [pa.array(list(given), pa.int32()), pa.array(list(given.values()))]
    pq.write_table(pa.table(columns, names=["k", "v"]), directory / "source" / name)


def source_rows(directory: Path) -> dict[int, str]:
    found = [pq.read_table(file).to_pydict() for file in (directory / "source").glob("*.parquet")]
    return {key: value for file in found for key, value in zip(file["k"], file["v"], strict=True)}


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    add_file(tmp_path / "origin", "one.parquet", {1: "a", 2: "b"})
    add_file(tmp_path / "origin", "two.parquet", {3: "c"})
    (tmp_path / "scratch").mkdir()
    return tmp_path / "origin"


def migrate(directory: Path) -> None:
    root, spark = str(directory / "source"), None
    frame: Any = SimpleNamespace(schema=COLUMNS)
    source = MigrationSource(frame, root, "parquet", (), files=list_source(LocalFileIO(), root))
    assert migrate_source(spark, source, str(directory / "t"), {}, {}, parallelism=1)  # type: ignore[arg-type]


@pytest.mark.oracle
def test_a_migration_is_killed_and_runs_again(origin: Path, tmp_path: Path, oracle: Any) -> None:
    states = set()
    for copy in killed_at_every_call(origin, migrate, tmp_path / "scratch"):
        path = str(copy / "t")
        there = table_exists(path)
        snapshot = load_table(path).snapshots.latest_id() if there else None
        state = (there, snapshot, len(source_rows(copy)))
        if snapshot is None:
            assert source_rows(copy) == ROWS
            if there:
                with pytest.raises(SchemaError, match="source is whole: drop this table, then migrate again"):
                    migrate(copy)
                shutil.rmtree(path)
            migrate(copy)
        elif source_rows(copy):
            (copy / "source" / "one.parquet").unlink()  # the files are deleted one by one
            with pytest.raises(SchemaError, match=r"all rows had come.*keep this table, and delete what is left"):
                migrate(copy)
        assert rows(load_table(path)) == ROWS
        if state not in states:
            assert dict(oracle.rows(path)) == ROWS
        states.add(state)
    assert {there for there, _, _ in states} == {False, True}
    assert {(snapshot, left) for _, snapshot, left in states} == {(None, 3), (1, 3), (1, 0)}


def test_a_file_that_comes_during_a_migration_stays(origin: Path, tmp_path: Path) -> None:
    def rival(directory: Path) -> None:
        add_file(directory, "three.parquet", {4: "d"})

    for copy, error in with_a_rival(origin, migrate, rival, tmp_path / "scratch"):
        assert error is None
        table = rows(load_table(str(copy / "t")))
        assert table in (ROWS, {**ROWS, 4: "d"})
        assert {**table, **source_rows(copy)} == {**ROWS, 4: "d"}


def migrate_another(directory: Path) -> None:
    """Migrate three files of a directory of its own."""
    own = directory / str(len(list(directory.iterdir())))
    aside = directory.parent / own.name
    for number, (key, value) in enumerate(ROWS.items()):
        add_file(aside, f"{number}.parquet", {key: value})
    aside.rename(own)
    migrate(own)


def test_migrations_are_killed_at_random_moments(tmp_path: Path) -> None:
    """By SIGKILL: all rows are in the source, or all are in the table."""
    directory = tmp_path / "all"
    directory.mkdir()
    for wait in killed_at_random(migrate_another, directory):
        wait()
    assert len(list(directory.iterdir())) > 3
    for one in directory.iterdir():
        path = str(one / "t")
        if not table_exists(path) or load_table(path).snapshots.latest_id() is None:
            assert source_rows(one) == ROWS
            shutil.rmtree(path, ignore_errors=True)
            migrate(one)
        assert rows(load_table(path)) == ROWS
