"""Every aggregate function with ``ignore-retract`` and late rows, against Java (``FieldIgnoreRetractAgg``)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.support.merge_cases import KEY_TIME, NESTED, canonical, engine_of, rows_of, rows_table

ORDERS = ([4, 1, 3, 5, 2], [1, 2, 3, 4, 5], [3, None, 2, 1, 3], [2, 1, 1, 3, 2])
"""Sequences of one key each: a row is late when a greater one came before it."""

Column = tuple[str, str, dict[str, str], list[Any]]
COLUMNS: list[Column] = [
    ("collect", "ARRAY<INT>", {}, [[3, 0], [7, None], None, [-1], [3]]),
    ("collect", "ARRAY<INT>", {"distinct": "true"}, [[3, 0], [7, 3, 3], None, [0], [5]]),
    ("collect", "ARRAY<ARRAY<INT>>", {"distinct": "true"}, [[[1], [2]], [[2], [3], [3]], None, [[1]], [[4], [4]]]),
    ("collect", NESTED, {"distinct": "true"}, [[{"a": n, "b": 1, "c": "x"}] * 2 for n in (1, 2, 1, 3, 2)]),
    ("listagg", "STRING", {}, ["a", "b", None, "c", "d"]),
    ("listagg", "STRING", {"distinct": "true"}, ["a", "b,c,b", None, "c", "a"]),
    ("last_value", "INT", {}, [1, 2, None, 4, None]),
    ("last_non_null_value", "INT", {}, [None, 2, None, 4, None]),
    ("first_value", "INT", {}, [1, None, 3, 4, 5]),
    ("first_non_null_value", "INT", {}, [None, 2, 3, None, 5]),
    ("max", "INT", {}, [1, 5, None, 4, 2]),
    ("min", "INT", {}, [3, 5, None, 1, 2]),
    ("sum", "INT", {}, [1, 2, None, 4, 8]),
    ("sum", "DOUBLE", {}, [1e16, 1.0, None, -1e16, 1.0]),
    ("product", "INT", {}, [2, 3, None, 5, 7]),
    ("bool_and", "BOOLEAN", {}, [True, None, True, False, True]),
    ("bool_or", "BOOLEAN", {}, [False, None, False, True, False]),
    ("merge_map", "MAP<STRING, INT>", {}, [[("a", 1), ("b", 1)], [("a", 2)], None, [("b", 3), ("c", 3)], [("c", 4)]]),
    (
        "merge_map_with_keytime",
        KEY_TIME,
        {},
        [[("a", None if n == 4 else {"v": n, "ts": str(n % 3)}), (str(n), {"v": n, "ts": None})] for n in range(1, 6)],
    ),
    ("primary-key", "INT", {}, [1, 2, None, 4, 5]),
    ("nested_update", NESTED, {}, [[{"a": n, "b": n, "c": "x"}] for n in (1, 2, 1, 4, 5)]),
    ("nested_update", NESTED, {"nested-key": "a"}, [[{"a": n % 2, "b": n, "c": "x"}] for n in (1, 2, 3, 4, 5)]),
    (
        "nested_partial_update",
        NESTED,
        {"nested-key": "a"},
        [[{"a": 1, "b": b, "c": c}] for b, c in ((1, None), (None, "y"), (3, None), (None, "z"), (5, None))],
    ),
]
UNORDERED = ("merge_map", "merge_map_with_keytime", "nested_partial_update")


def case() -> tuple[dict[str, str], dict[str, str], list[list[dict[str, Any]]]]:
    """The table of all columns: its columns, options, and the rows of each commit, with a retraction in one."""
    columns, options = {"k": "INT NOT NULL", "g": "INT"}, {"merge-engine": "partial-update"}
    for i, (function, kind, given, _) in enumerate(COLUMNS):
        columns[f"v{i}"] = kind
        options[f"fields.v{i}.aggregate-function"] = function
        options[f"fields.v{i}.ignore-retract"] = "true"
        options.update({f"fields.v{i}.{key}": text for key, text in given.items()})
    options["fields.g.sequence-group"] = ",".join(f"v{i}" for i in range(len(COLUMNS)))
    commits = []
    for step in range(5):
        rows = []
        for key, order in enumerate([*ORDERS, *ORDERS]):
            values = {f"v{i}": column[3][step] for i, column in enumerate(COLUMNS)}
            kind = 3 if key >= len(ORDERS) and step == 3 else 0  # the second half of the keys meets a retraction
            rows.append({"k": key, "g": order[step], **values, "_SEQUENCE_NUMBER": step, "_VALUE_KIND": kind})
        commits.append(rows)
    return columns, options, commits


def comparable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows to compare, in order of the key; elements of hash tables have no order."""
    hashed = [
        f"v{i}"
        for i, (function, kind, given, _) in enumerate(COLUMNS)
        if function in UNORDERED or "nested-key" in given or (kind == "ARRAY<INT>" and "distinct" in given)
    ]
    result = []
    for row in sorted(rows, key=lambda row: row["k"]):
        values = {name: canonical(value) for name, value in row.items()}
        values.update({name: sorted(values[name], key=repr) for name in hashed if values[name] is not None})
        result.append(values)
    return result


def test_late_elements_of_collect_come_first() -> None:
    columns = {"k": "INT NOT NULL", "v": "ARRAY<INT>", "g": "INT"}
    rows = [
        {"k": 1, "v": elements, "g": order, "_SEQUENCE_NUMBER": i, "_VALUE_KIND": 0}
        for i, (elements, order) in enumerate([([3, 0], 3), ([-1, 3], 2), ([7, 3], 1)])
    ]
    options = {
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "v",
        "fields.v.aggregate-function": "collect",
    }
    wrapped = {**options, "fields.v.ignore-retract": "true"}
    for given, expected in ((options, [3, 0, -1, 3, 7, 3]), (wrapped, [7, 3, -1, 3, 3, 0])):
        merged = engine_of(columns, ["k"], given).merge(rows_table(columns, rows), drop_deletes=True)
        assert merged.column("v").to_pylist() == [expected]


@pytest.mark.oracle
def test_every_function_is_java(oracle: Any) -> None:
    columns, options, commits = case()
    name = oracle.fresh_name("db")
    oracle.create(name, list(columns.items()), pk=["k"], options={**options, "bucket": "1", "write-only": "true"})
    runs = []
    for rows in commits:
        table = rows_table(columns, rows)
        oracle.write(name, table.drop_columns(["_SEQUENCE_NUMBER"]).rename_columns([*columns, "_kind"]))
        runs.append(table)
    merged = engine_of(columns, ["k"], options).merge(
        pa.concat_tables(runs), drop_deletes=True, key_value_columns=False
    )
    theirs = oracle.read(name).select(list(columns)).cast(merged.schema)
    for ours, java in zip(comparable(rows_of(merged)), comparable(rows_of(theirs)), strict=True):
        for column in columns:
            number = int(column[1:]) if column[0] == "v" else None
            assert ours[column] == java[column], (ours["k"], COLUMNS[number][:3] if number is not None else column)
