"""The golden tables as test cases: which reads are in scope, and how rows are compared.

A case is one read of one golden table with the rows that Java gave. Whether it is in scope is said by rules over the
table's features and the read's options, never by a table's name: a feature that comes later deletes its rule.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.golden_archives import EXPECTED, golden_folder

GOLDEN = golden_folder()
"""The directory of the golden tables, unpacked."""


@dataclass(frozen=True)
class GoldenTable:
    """One golden table and what Java said of it."""

    name: str
    expect: dict[str, Any]

    @property
    def path(self) -> Path:
        return GOLDEN / self.name / "table"

    def options(self, branch: str | None = None) -> dict[str, str]:
        """Options of the latest schema, of a branch those of the branch."""
        if branch is None:
            return dict(self.expect["options"])
        files = (self.path / "branch" / f"branch-{branch}" / "schema").glob("schema-*")
        latest = max(files, key=lambda path: int(path.name.removeprefix("schema-")))
        return dict(json.loads(latest.read_text())["options"])


@dataclass(frozen=True)
class GoldenRead:
    """One read of a golden table; `error` is Java's message where Java fails."""

    table: GoldenTable
    read: dict[str, Any]
    error: bool = False

    @property
    def id(self) -> str:
        suffix = "-error" if self.error else ""
        return f"{self.table.name}-{self.read['id']}{suffix}"

    @property
    def options(self) -> dict[str, str]:
        return dict(self.read.get("options") or {})

    @property
    def columns(self) -> list[str] | None:
        return self.read.get("columns")

    @property
    def branch(self) -> str | None:
        return self.read.get("branch")

    @property
    def message(self) -> str:
        return str(self.read["message"])

    @property
    def system(self) -> str | None:
        return self.read.get("system")

    def rows(self) -> pa.Table:
        """Java's rows; without their kinds, which a read of the table itself does not show."""
        with pa.memory_map(str(GOLDEN / self.table.name / self.read["rows"])) as source:
            rows = pa.ipc.open_file(source).read_all()
        return rows.drop_columns(["_kind"]) if self.read.get("kinds") else rows

    def sql_filter(self, columns: Iterable[tuple[str, str]]) -> str | None:
        """The read's filter as an SQL predicate."""
        conditions = self.read.get("filter")
        if not conditions:
            return None
        types = dict(columns)
        return " AND ".join(_condition(name, op, value, types[name]) for name, op, value in conditions)


def _condition(name: str, op: str, value: Any, sql_type: str) -> str:
    quoted = f"`{name}`"
    if op in ("null", "notnull"):
        return f"{quoted} IS {'NOT ' if op == 'notnull' else ''}NULL"
    if op == "in":
        return f"{quoted} IN ({', '.join(_literal(item, sql_type) for item in value)})"
    if op == "startswith":
        return f"{quoted} LIKE '{value}%'"
    return f"{quoted} {op} {_literal(value, sql_type)}"


def _literal(value: Any, sql_type: str) -> str:
    kind = sql_type.split("(")[0].split(" ")[0]
    if kind == "DATE":
        return f"DATE '{pa.scalar(value, pa.date32()).as_py()}'"
    if kind == "TIMESTAMP":
        precision = int(sql_type.split("(")[1].split(")")[0]) if "(" in sql_type else 6
        unit = "s" if precision == 0 else "ms" if precision <= 3 else "us" if precision <= 6 else "ns"
        return f"TIMESTAMP '{pa.scalar(value, pa.timestamp(unit)).as_py()}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return str(value).upper()
    return str(value)


NOT_YET_TABLES: dict[str, tuple[str, ...]] = {}
"""Table options (and values) whose tables cannot be read yet; reading them must be refused by the option's name."""

WITH_ROWS = ("audit_log", "binlog", "ro", "row_tracking")
"""System tables that show rows of the table."""


def not_yet(case: GoldenRead) -> str | None:
    """The option for which the read must be refused, None when it must give Java's rows."""
    options = case.table.options(case.branch)
    for key, values in NOT_YET_TABLES.items():
        if options.get(key) in values:
            return key
    return None


def of_another_kind(read: dict[str, Any]) -> bool:
    """Whether a read does not look at the table's rows: of a system table made from metadata."""
    return read.get("system") not in (None, *WITH_ROWS)


def follows_a_java_bug(case: GoldenRead) -> bool:
    """Whether Java's rows are wrong by its own account, its failure was repaired later, or Java 2.1 gives others."""
    return bool(case.read.get("java_differs_from_full_read") or case.read.get("fixed_later") or by_newer_rules(case))


def by_newer_rules(case: GoldenRead) -> bool:
    """Whether it was merged by rules of 1.4 that 2.1 has changed (docs/internals/format.md §14): we follow 2.1."""
    return bool(case.table.expect.get("version_dependent"))


def golden_tables() -> list[GoldenTable]:
    """Every golden table."""
    found = sorted(GOLDEN.glob(f"*/{EXPECTED}"))
    return [GoldenTable(path.parent.name, json.loads(path.read_text())) for path in found]


def golden_reads() -> list[GoldenRead]:
    """Every read of a table's rows, in scope or not; errors as Java's failures."""
    cases: list[GoldenRead] = []
    for table in golden_tables():
        cases += [GoldenRead(table, read) for read in table.expect["reads"] if not of_another_kind(read)]
        cases += [GoldenRead(table, read, True) for read in table.expect["errors"] if not of_another_kind(read)]
    return cases


def row_multiset(rows: pa.Table, unordered: Iterable[str] = ()) -> Counter[tuple[Any, ...]]:
    """Rows as a multiset of comparable values: maps as sets, NaN equal to NaN, -0.0 apart from 0.0."""
    loose = set(unordered)
    columns = [
        [_comparable(value, name in loose, rows.schema.field(name).type) for value in _values(rows.column(name))]
        for name in rows.schema.names
    ]
    return Counter(zip(*columns, strict=True)) if columns else Counter({(): rows.num_rows})


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64()).to_pylist()
    return column.to_pylist()


def _comparable(value: Any, loose: bool, data_type: pa.DataType) -> Any:
    if value is None:
        return None
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1.0, value))
    if pa.types.is_map(data_type):
        pairs = [
            (_comparable(k, loose, data_type.key_type), _comparable(v, loose, data_type.item_type)) for k, v in value
        ]
        return tuple(sorted(pairs, key=repr))
    if pa.types.is_struct(data_type):
        return tuple(_comparable(value[f.name], loose, f.type) for f in data_type)
    if pa.types.is_list(data_type) or pa.types.is_fixed_size_list(data_type):
        items = [_comparable(item, loose, data_type.value_type) for item in value]
        return tuple(sorted(items, key=repr)) if loose else tuple(items)
    return value


def assert_same_rows(actual: pa.Table, case: GoldenRead) -> None:
    """Check columns, Arrow types and the multiset of rows."""
    expected = case.rows()
    assert actual.schema.names == expected.schema.names
    for name in expected.schema.names:
        assert _plain(actual.schema.field(name).type) == _plain(expected.schema.field(name).type), name
    unordered = case.read.get("unordered_columns") or ()
    got, want = row_multiset(actual, unordered), row_multiset(expected, unordered)
    missing, surplus = want - got, got - want
    assert not missing, (
        f"{sum(missing.values())} rows missing, such as {list(missing)[:3]}; too many: {list(surplus)[:3]}"
    )
    assert not surplus, f"{sum(surplus.values())} rows too many, such as {list(surplus)[:3]}"
    assert expected.num_rows == case.read["count"]


def _plain(data_type: pa.DataType) -> str:
    """The type without nullability and field names of lists and maps, which carry no data."""
    if pa.types.is_map(data_type):
        return f"map<{_plain(data_type.key_type)}, {_plain(data_type.item_type)}>"
    if pa.types.is_list(data_type) or pa.types.is_fixed_size_list(data_type):
        return f"list<{_plain(data_type.value_type)}>"
    if pa.types.is_struct(data_type):
        return "struct<" + ", ".join(f"{f.name}: {_plain(f.type)}" for f in data_type) + ">"
    return str(data_type)
