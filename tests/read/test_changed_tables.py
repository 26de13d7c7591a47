"""A read that was described earlier, of a table that another process has changed since: right rows, or an error."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import PaimonError, SchemaMismatchError, TableNotFoundError
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table import schema_store
from paimon_spark.table.schema_change import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnNullability,
    UpdateColumnType,
)
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of

COLUMNS = {"a": "INT NOT NULL", "b": "STRING"}


def make(path: Path, columns: dict[str, str] = COLUMNS, **options: str) -> FileStoreTable:
    fields = [DataField(at, name, parse_type(kind)) for at, (name, kind) in enumerate(columns.items())]
    return create_table(str(path), create_schema(fields, (), (), {"bucket": "-1", **options}))


def write(path: Path, *rows: tuple[Any, ...]) -> None:
    table = load_table(str(path))
    schema = to_arrow_schema(table.schema.fields)
    data = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    commit(table, [write_batches(plan_write(table, data_schema=schema), data.to_batches(), 0)])


def read(table: FileStoreTable) -> list[tuple[Any, ...]]:
    plan = plan_of(table)
    batches = (b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, None))
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("change", "row", "found"),
    [
        (UpdateColumnType(("a",), parse_type("BIGINT")), (5_000_000_000, "z"), "column a was changed from INT"),
        (UpdateColumnType(("a",), parse_type("DOUBLE")), (1.5, "z"), "column a was changed from INT"),
        (UpdateColumnNullability(("a",), True), (None, "z"), "column a was changed from INT NOT NULL"),
        (DropColumn(("b",)), (3,), "column b was dropped"),
        (RenameColumn(("b",), "c"), (3, "z"), [(1, "x"), (3, "z")]),
        (AddColumn(("c",), parse_type("INT")), (3, "z", 4), [(1, "x"), (3, "z")]),
        (SetOption("deletion-vectors.enabled", "true"), (3, "z"), "option 'deletion-vectors.enabled' was changed"),
        (SetOption("snapshot.num-retained.max", "99"), (3, "z"), [(1, "x"), (3, "z")]),
    ],
)
def test_columns_that_changed(tmp_path: Path, change: SchemaChange, row: tuple[Any, ...], found: Any) -> None:
    held = make(tmp_path / "t", **{"deletion-vectors.modifiable": "true"})
    write(tmp_path / "t", (1, "x"))
    alter_table(load_table(held.path), [change])
    assert read(held) == [(1, "x")]  # no row has the new columns yet
    write(tmp_path / "t", row)
    if isinstance(found, str):
        with pytest.raises(SchemaMismatchError, match=found):
            read(held)
    else:
        assert read(held) == found
    assert len(read(load_table(held.path))) == 2
    assert read(load_table(held.path, options={"scan.snapshot-id": "1"})) == [(1, "x")]


@pytest.mark.parametrize("columns", [COLUMNS, {"x": "INT NOT NULL", "y": "STRING"}, {"b": "STRING", "a": "INT"}])
def test_a_table_that_was_made_anew(tmp_path: Path, columns: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_store, "FRESH_SECONDS", 0.0)
    held = make(tmp_path / "t")
    write(tmp_path / "t", (1, "x"))
    assert read(held) == [(1, "x")]
    shutil.rmtree(held.path)
    with pytest.raises(PaimonError):
        read(held)
    make(tmp_path / "t", columns)
    write(tmp_path / "t", (7, "new") if "b" not in list(columns)[:1] else ("new", 7))
    with pytest.raises(TableNotFoundError, match="made anew"):
        read(held)
    with pytest.raises(TableNotFoundError, match="made anew"):
        read(held.with_options({"scan.snapshot-id": "1"}))
    assert len(read(load_table(held.path))) == 1
