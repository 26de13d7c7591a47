"""A copied table: Java reads it and writes on; deleted rows, changed columns and indexes come along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import OptionError, SchemaError, UnsupportedError
from paimon_spark.maintain.compact.scope import scope_of
from paimon_spark.maintain.copy_table import copy_here, copy_table
from paimon_spark.spec.sql_filter import parse_filter
from paimon_spark.table.table import load_table
from tests.support.commits import data_file, make_table, message
from tests.support.plans import plan_of

COLUMNS = [("k", "INT NOT NULL"), ("v", "STRING"), ("p", "STRING NOT NULL")]
KINDS: dict[str, dict[str, Any]] = {
    "append": {"partition": ["p"], "options": {"file-index.bloom-filter.columns": "k"}},
    "keys": {"pk": ["k", "p"], "partition": ["p"], "options": {"bucket": "2"}},
    "dynamic": {"pk": ["k", "p"], "partition": ["p"], "options": {"dynamic-bucket.target-row-num": "3"}},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}},
}


@pytest.mark.oracle
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_has_the_rows_of_its_source(kind: str, oracle: Any, tmp_path: Path) -> None:
    name = oracle.fresh_name("copied")
    oracle.create(name, COLUMNS, **KINDS[kind])
    for first in (0, 5):
        oracle.write(name, [(k, f"v{first}", f"p{k % 2}") for k in range(first, first + 10)])
    oracle.alter(name, ("rename", "v", "w"), ("add", "x", "INT"))
    oracle.write(name, [(k, "new", f"p{k % 2}", k) for k in range(20, 24)])
    source = load_table(oracle.location(name))
    if kind == "vectors":
        for file in oracle.files(name)[:2]:
            oracle.delete_positions(name, {file["file"]: [0, 3]})
    path = str(tmp_path / "wh" / "db.db" / "copy")
    rows = oracle.rows(name)
    target = copy_table(source, path, {})
    assert oracle.rows(path) == rows
    assert [schema.fields for schema in target.schemas.all()] == [schema.fields for schema in source.schemas.all()]
    # again, into the table that is there: the rows are replaced
    more = [(k, "more", f"p{k % 2}", k) for k in range(22, 26)]
    oracle.write(name, more)
    copy_table(source, path, {})
    assert oracle.rows(path) == oracle.rows(name)
    oracle.write(path, [(30, "on", "p0", 1)])
    assert len(oracle.rows(path)) == len(oracle.rows(name)) + 1
    if kind == "vectors":
        return
    where = scope_of(source, where="p = 'p1'").partitions
    part = str(tmp_path / "wh" / "db.db" / "part")
    copy_table(source, part, {}, where)
    position = 2
    assert oracle.rows(part) == [row for row in oracle.rows(name) if row[position] == "p1"]


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ["append", "keys"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_target_may_have_more_columns(kind: str, file_format: str, oracle: Any, tmp_path: Path) -> None:
    made = KINDS[kind] | {"options": {**KINDS[kind].get("options", {}), "file.format": file_format}}
    name, other = oracle.fresh_name("narrow"), oracle.fresh_name("wide")
    oracle.create(name, COLUMNS, **made)
    oracle.create(other, [*COLUMNS, ("more", "INT"), ("text", "STRING")], **made)
    oracle.write(name, [(k, f"v{k}", "p0") for k in range(6)])
    oracle.write(other, [(7, "old", "p0", 1, "a"), (8, "kept", "p1", 2, "b")])
    path = oracle.location(other)
    copy_table(load_table(oracle.location(name)), path, {})
    wanted = [*((k, f"v{k}", "p0", None, None) for k in range(6)), (8, "kept", "p1", 2, "b")]
    assert sorted(oracle.rows(other)) == wanted
    table = load_table(path)
    for condition, found in (
        ("k >= 0", wanted), ("more IS NULL", wanted[:6]), ("more = 2", wanted[6:]), ("text = 'b'", wanted[6:]),
        ("v = 'v3'", wanted[3:4]), ("p = 'p0' AND k < 2", wanted[:2]),
    ):  # fmt: skip
        plan = plan_of(table, predicate=parse_filter(condition, table.schema))
        read = (plan.read(plan.table, split, plan.fields, plan.residual) for split in plan.splits)
        assert sorted(tuple(row.values()) for batches in read for b in batches for row in b.to_pylist()) == found


def test_what_cannot_be_copied_is_reported_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_table(tmp_path / "source")
    commit(source, [message(source, data_file(source, {1: "a"}))])
    other = make_table(tmp_path / "other", partition=["p"])
    with pytest.raises(SchemaError, match="partition keys is not compatible"):
        copy_table(source, other.path, {})
    with pytest.raises(OptionError, match="into itself"):
        copy_table(source, source.path, {})
    tracked = make_table(tmp_path / "tracked", **{"row-tracking.enabled": "true"})
    with pytest.raises(UnsupportedError, match="row-tracking"):
        copy_table(tracked, str(tmp_path / "new"), {})
    assert not (tmp_path / "new").exists()

    def half(one: Any, two: Any, copies: Any) -> None:
        copy_here(one, two, copies)
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        copy_table(source, str(tmp_path / "new"), {}, execute=half)
    assert not (tmp_path / "new").exists()
    again = copy_table(source, str(tmp_path / "again"), {})
    before = {path for path in Path(again.path).rglob("*") if path.is_file()}
    with pytest.raises(OSError, match="no more"):
        copy_table(source, again.path, {}, execute=half)
    assert {path for path in Path(again.path).rglob("*") if path.is_file()} == before
