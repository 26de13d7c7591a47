"""Options that name columns follow them: to new names, and back to the names of an older state that is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import OptionError
from paimon_spark.read.row_views import ROWS
from paimon_spark.spec.data_types import DataField, IntType, VarCharType
from paimon_spark.spec.schema import TableSchema, create_schema
from paimon_spark.table.schema_change import (
    AddColumn,
    DropColumn,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    options_at,
    renamed_options,
)
from paimon_spark.table.schema_evolution import alter_table, changed_schema
from paimon_spark.table.table import load_table
from tests.support.commits import data_file, make_table, message
from tests.support.plans import plan_of


def schema(options: Mapping[str, str], *columns: str) -> TableSchema:
    fields = [DataField(0, "id", IntType(nullable=False))]
    fields += [DataField(i, name, VarCharType(9)) for i, name in enumerate(columns, 1)]
    return create_schema(fields, ("id",), (), options)


def changed(before: TableSchema, *changes: SchemaChange) -> TableSchema:
    return changed_schema(before, changes, has_snapshots=True, table_name="db.t")


GROUPS = {
    "merge-engine": "partial-update",
    "fields.s.sequence-group": "v,a.b",
    "fields.v.aggregate-function": "max",
    "fields.a.b.aggregate-function": "min",
    "partial-update.remove-record-on-sequence-group": "s",
    "file-index.bloom-filter.columns": "v,id",
    "file-index.bloom-filter.v.fpp": "0.1",
}


def test_names_go_back_to_those_of_the_older_schema() -> None:
    old = schema(GROUPS, "s", "v", "a.b")
    new = changed(old, RenameColumn(("s",), "t"), RenameColumn(("v",), "w"), RenameColumn(("a.b",), "a"))
    assert new.options["fields.t.sequence-group"] == "w,a"
    assert new.options["file-index.bloom-filter.w.fpp"] == "0.1"
    assert new.options["partial-update.remove-record-on-sequence-group"] == "t"
    assert options_at(new, new.options, old) == old.options
    swapped = changed(old, RenameColumn(("s",), "x"), RenameColumn(("v",), "s"), RenameColumn(("x",), "v"))
    assert swapped.options["fields.v.sequence-group"] == "s,a.b"
    assert options_at(swapped, swapped.options, old) == old.options


def test_what_names_newer_columns_is_as_it_was_then() -> None:
    old = schema({**GROUPS, "team": "blue"}, "s", "v", "a.b")
    new = changed(
        old,
        AddColumn(("n",), VarCharType(9)),
        SetOption("fields.s.sequence-group", "v,a.b,n"),
        SetOption("fields.v.aggregate-function", "last_value"),
        SetOption("team", "red"),
    )
    assert options_at(new, new.options, old) == {**old.options, "team": "red"}
    ordered = schema({}, "v")
    later = changed(ordered, AddColumn(("n",), IntType()), SetOption("sequence.field", "n"))
    assert "sequence.field" not in options_at(later, later.options, ordered)


def test_the_latest_value_counts_for_columns_that_both_have() -> None:
    old = schema({"sequence.field": "s"}, "s", "v")
    gone = changed(old, RemoveOption("sequence.field"))
    assert options_at(gone, gone.options, old) == {}
    new = changed(old, RenameColumn(("v",), "w"), SetOption("sequence.field", "w"))
    assert options_at(new, new.options, old) == {"sequence.field": "v"}
    # options of the reader are about the columns that it sees
    assert options_at(new, {**new.options, "sequence.field": "s"}, old) == {"sequence.field": "s"}
    dropped = changed(new, DropColumn(("s",)), AddColumn(("s",), IntType()), SetOption("sequence.field", "s"))
    assert options_at(dropped, dropped.options, old) == {"sequence.field": "s"}


def test_only_whole_names_are_renamed() -> None:
    names = {"a": "x", "a.b": "a.b"}
    given = {"fields.a.b.distinct": "true", "fields.a.distinct": "true", "file-index.bitmap.columns": "a[k], a.b"}
    expected = {"fields.a.b.distinct": "true", "fields.x.distinct": "true", "file-index.bitmap.columns": "x[k], a.b"}
    assert renamed_options(given, names) == expected


def rows(path: Path, **options: str) -> list[dict[str, Any]]:
    table = load_table(str(path), options={key.replace("__", ".").replace("_", "-"): v for key, v in options.items()})
    plan = plan_of(table, ROWS)
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    return [row for batch in batches for row in batch.to_pylist()]


def test_every_older_state_is_read_after_a_rename(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="1", sequence__field="v")
    commit(table, [message(table, data_file(table, {1: "b", 2: "x"}))])
    commit(table, [message(table, data_file(table, {1: "a", 2: "y"}, sequence=10))])
    alter_table(table, [RenameColumn(("v",), "w")])
    table = load_table(str(tmp_path / "t"))
    assert rows(tmp_path / "t") == [{"k": 1, "w": "b"}, {"k": 2, "w": "y"}]
    then = [{"k": 1, "v": "b"}, {"k": 2, "v": "y"}]
    assert rows(tmp_path / "t", scan__snapshot_id="2") == then
    travelled = table.at_snapshot(table.snapshots.get(2))
    assert travelled.options.sequence_fields == ("v",)
    dynamic = travelled.with_options({"read.merge.memory-budget": "1 mb"})
    assert dynamic.at_snapshot(table.snapshots.get(1)) == dynamic
    alter_table(table, [RenameColumn(("w",), "x")])
    table = load_table(str(tmp_path / "t"))
    alter_table(table, [SetOption("snapshot.num-retained.min", "3")])
    back = dynamic.with_latest_schema().at_snapshot(table.snapshots.get(1))
    assert back.options.sequence_fields == ("v",)
    own = rows(tmp_path / "t", scan__snapshot_id="2", sequence__field="k")
    assert own == [{"k": 1, "v": "a"}, {"k": 2, "v": "y"}]


def test_an_option_that_names_no_column_is_refused_when_the_read_is_planned(tmp_path: Path) -> None:
    make_table(tmp_path / "t", primary_key=["k"], bucket="1")
    with pytest.raises(OptionError, match="Sequence field: 'nope' can not be found"):
        plan_of(load_table(str(tmp_path / "t"), options={"sequence.field": "nope"}), ROWS)
