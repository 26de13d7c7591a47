"""Random merge cases for hypothesis: a table, its options and rows with kinds and sequence numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from paimon_spark.merge.factory import MergeEngine, merge_engine_for
from paimon_spark.spec.arrow_types import to_arrow_field
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type

NAN = float("nan")
NESTED = "ARRAY<ROW<a INT, b INT, c STRING>>"
KEY_TIME = "MAP<STRING, ROW<v INT, ts STRING>>"

nested_rows = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {
            "a": st.sampled_from([None, 1, 2, 3]),
            "b": st.sampled_from([None, 1, 2]),
            "c": st.sampled_from([None, "x", "y"]),
        }
    ),
)
timed_rows = st.one_of(
    st.none(), st.fixed_dictionaries({"v": st.integers(0, 9), "ts": st.sampled_from([None, "1", "2", "3"])})
)


def _unique_keys(rows: list[Any]) -> list[Any]:
    """Nested rows whose keys (any prefix of a, b) are distinct and not null: Java 1.4 and 2 agree on those only."""
    return list({row["a"]: row for row in rows if row is not None and None not in (row["a"], row["b"])}.values())


def _map(keys: st.SearchStrategy[Any], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(keys, values, max_size=3).map(lambda d: list(d.items()))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-5, 60),
    "SMALLINT": st.integers(-30000, 30000),
    "INT": st.sampled_from([0, 1, 2, 3, -1, -7, 2**31 - 1, -(2**31)]),
    "BIGINT": st.sampled_from([0, 1, 2, 5, -3, 2**62, -(2**63), 2**63 - 1]),
    "FLOAT": st.sampled_from([1.0, 0.5, -2.0, 3.0, 0.10000000149011612, 16777216.0]),
    "DOUBLE": st.sampled_from([1.0, 0.1, -2.5, 1e16, -1e16, NAN, -0.0, 0.0]),
    "DECIMAL(5, 2)": st.integers(-99999, 99999).map(lambda n: Decimal(n).scaleb(-2)),
    "DECIMAL(18, 0)": st.sampled_from([Decimal(n) for n in (1, -5, 10**18 - 1, -(10**18) + 1)]),
    "DECIMAL(38, 3)": st.sampled_from([Decimal(n).scaleb(-3) for n in (1, -5, 10**19, 9 * 10**37, -(9 * 10**37))]),
    "STRING": st.sampled_from(["", " ", "a", "b", "a,b", "b,c,b", "ä", "\uffff", "\U0001f600", "long long text"]),
    "BYTES": st.sampled_from([b"", b"\x00", b"\x00\x00", b"\xff", b"abc"]),
    "DATE": st.integers(0, 5),
    "TIMESTAMP(6)": st.integers(0, 5),
    "ARRAY<INT>": st.lists(st.sampled_from([None, 1, 2, 3]), max_size=4),
    "ARRAY<STRING>": st.lists(st.sampled_from([None, "a", "b", ""]), max_size=4),
    "ARRAY<BYTES>": st.lists(st.sampled_from([b"a", b"b"]), max_size=3),
    "ARRAY<ARRAY<INT>>": st.lists(st.lists(st.integers(0, 2), max_size=2), max_size=3),
    "MAP<STRING, INT>": _map(st.sampled_from("abc"), st.sampled_from([None, 1, 2])),
    "MAP<INT, ARRAY<INT>>": _map(st.integers(0, 2), st.lists(st.integers(0, 2), max_size=2)),
    KEY_TIME: _map(st.sampled_from("abc"), timed_rows),
    NESTED: st.lists(nested_rows, max_size=4),
}
CALM_VALUES: dict[str, st.SearchStrategy[Any]] = {
    **VALUES,
    "TINYINT": st.integers(-1, 1),
    "SMALLINT": st.integers(-2, 2),
    "INT": st.integers(-2, 3),
    "BIGINT": st.integers(-3, 3),
    "DOUBLE": st.sampled_from([1.0, 0.1, -2.5, 1e16, -1e16, 0.0]),
    "DECIMAL(5, 2)": st.integers(-300, 300).map(lambda n: Decimal(n).scaleb(-2)),
    "DECIMAL(18, 0)": st.integers(-300, 300).map(Decimal),
    "STRING": st.sampled_from(["a", "b", "a,b", "b,c,b", "ä", "\U0001f600", "long long text"]),
    NESTED: st.lists(nested_rows, max_size=4).map(_unique_keys),
}
"""Values over which all Java versions agree.

No integer overflow, no blank text, no key twice in a nested table; no -0.0 and NaN, which 1.4 compares as primitives.
"""
NUMBERS = (
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(5, 2)",
    "DECIMAL(18, 0)",
    "DECIMAL(38, 3)",
)
SCALARS = (*NUMBERS, "BOOLEAN", "STRING", "BYTES", "DATE", "TIMESTAMP(6)")
TYPES_OF: dict[str, Sequence[str]] = {
    "sum": NUMBERS,
    "product": ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DECIMAL(5, 2)", "DECIMAL(38, 3)"),
    "max": SCALARS,
    "min": SCALARS,
    "last_value": (*SCALARS, "ARRAY<INT>"),
    "last_non_null_value": SCALARS,
    "first_value": SCALARS,
    "first_non_null_value": SCALARS,
    "bool_and": ("BOOLEAN",),
    "bool_or": ("BOOLEAN",),
    "listagg": ("STRING",),
    "collect": ("ARRAY<INT>", "ARRAY<STRING>", "ARRAY<BYTES>", "ARRAY<ARRAY<INT>>", NESTED),
    "merge_map": ("MAP<STRING, INT>", "MAP<INT, ARRAY<INT>>"),
    "merge_map_with_keytime": (KEY_TIME,),
    "nested_update": (NESTED,),
    "nested_partial_update": (NESTED,),
}


@dataclass(frozen=True)
class MergeCase:
    """A table with rows in arrival order."""

    columns: Mapping[str, str]
    keys: Sequence[str]
    options: Mapping[str, str]
    rows: Sequence[Mapping[str, Any]]

    def engine(self) -> MergeEngine:
        return engine_of(self.columns, self.keys, self.options)

    def table(self) -> pa.Table:
        return rows_table(self.columns, self.rows)


def engine_of(columns: Mapping[str, str], keys: Sequence[str], options: Mapping[str, str]) -> MergeEngine:
    """The engine of a table with these columns (SQL types)."""
    fields = [DataField(i, name, parse_type(kind)) for i, (name, kind) in enumerate(columns.items())]
    return merge_engine_for(create_schema(fields, list(keys), [], dict(options)))


def rows_table(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as a KeyValue table."""
    arrays, fields = [], []
    for i, (name, kind) in enumerate(columns.items()):
        field = to_arrow_field(DataField(i, name, parse_type(kind)))
        values = [row[name] for row in rows]
        temporal = pa.types.is_temporal(field.type)
        storage = {32: pa.int32(), 64: pa.int64()}[field.type.bit_width] if temporal else field.type
        array = pa.array(values, storage)
        arrays.append(array.view(field.type) if temporal else array)
        fields.append(field)
    for name, kind in (("_SEQUENCE_NUMBER", pa.int64()), ("_VALUE_KIND", pa.int8())):
        arrays.append(pa.array([row[name] for row in rows], kind))
        fields.append(pa.field(name, kind, nullable=False))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """A table as plain rows: temporals as integers, maps as pairs."""
    columns = {}
    for name in table.schema.names:
        column = table.column(name).combine_chunks()
        if pa.types.is_temporal(column.type):
            column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
        columns[name] = column.to_pylist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def canonical(value: Any) -> Any:
    """A value in a form whose equality is identity of data: NaN equals NaN, -0.0 is not 0.0."""
    if isinstance(value, float):
        return ("float", repr(value))
    if isinstance(value, Mapping):
        return {name: canonical(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        items = [canonical(item) for item in value]
        is_map = items and all(isinstance(item, tuple) for item in value)
        return sorted(items, key=repr) if is_map else items  # no order of map entries is promised
    return value


@st.composite
def aggregate_options(draw: st.DrawFn, name: str, function: str) -> dict[str, str]:
    options = {f"fields.{name}.aggregate-function": function}
    if function in ("listagg", "collect") and draw(st.booleans()):
        options[f"fields.{name}.distinct"] = "true"
    if function == "listagg" and draw(st.booleans()):
        options[f"fields.{name}.list-agg-delimiter"] = draw(st.sampled_from([",", ";;"]))
    if function in ("nested_update", "nested_partial_update") and (function != "nested_update" or draw(st.booleans())):
        options[f"fields.{name}.nested-key"] = draw(st.sampled_from(["a", "a,b"]))
        if draw(st.booleans()):
            options[f"fields.{name}.nested-key-null-strategy"] = draw(st.sampled_from(["merge", "ignore", "error"]))
        if function == "nested_update" and draw(st.booleans()):
            options[f"fields.{name}.nested-sequence-field"] = draw(st.sampled_from("bc"))
    if function == "nested_update" and draw(st.booleans()):
        options[f"fields.{name}.count-limit"] = draw(st.sampled_from("1234"))
    if draw(st.integers(0, 3)) == 0:
        options[f"fields.{name}.ignore-retract"] = "true"
    return options


@st.composite
def key_columns(draw: st.DrawFn) -> dict[str, str]:
    kinds = draw(
        st.sampled_from(
            [["BIGINT"], ["INT"], ["STRING"], ["BIGINT", "STRING"], ["DATE", "INT"], ["DECIMAL(38, 3)"], ["BYTES"]]
        )
    )
    return {f"k{i}": f"{kind} NOT NULL" for i, kind in enumerate(kinds)}


@st.composite
def rows_for(
    draw: st.DrawFn,
    columns: Mapping[str, str],
    keys: Sequence[str],
    *,
    retracts: bool,
    nulls: float,
    most: int = 14,
    pools: Mapping[str, st.SearchStrategy[Any]] = VALUES,
) -> list[dict[str, Any]]:
    """Rows of few keys in arrival order."""
    distinct = draw(
        st.lists(st.tuples(*(pools[columns[key].removesuffix(" NOT NULL")] for key in keys)), min_size=1, max_size=3)
    )
    values = {
        name: (
            pools[kind.removesuffix(" NOT NULL")]
            if kind.endswith("NOT NULL")
            else st.one_of(st.none(), pools[kind])
            if nulls
            else pools[kind]
        )
        for name, kind in columns.items()
        if name not in keys
    }
    kinds = st.sampled_from([0, 0, 2, 0, 1, 3]) if retracts else st.sampled_from([0, 0, 2])
    count = draw(st.integers(0, most))
    numbers = draw(st.lists(st.integers(0, 2 * most), min_size=count, max_size=count))
    if draw(st.booleans()):
        numbers = sorted(numbers)
    rows = []
    for number in numbers:
        row = dict(zip(keys, draw(st.sampled_from(distinct)), strict=True))
        row.update({name: draw(strategy) for name, strategy in values.items()})
        rows.append({**{name: row[name] for name in columns}, "_SEQUENCE_NUMBER": number, "_VALUE_KIND": draw(kinds)})
    return rows


@st.composite
def partial_update_cases(
    draw: st.DrawFn,
    *,
    aggregates: bool | None = None,
    pools: Mapping[str, st.SearchStrategy[Any]] = VALUES,
) -> MergeCase:
    """Tables with partial-update, with and without sequence groups, aggregates and deletes."""
    columns = draw(key_columns())
    keys = list(columns)
    options: dict[str, str] = {"merge-engine": "partial-update"}
    shuffled: dict[str, str] = {}
    groups = draw(st.integers(0, 2))
    for group in range(groups):
        sequence = [f"g{group}{i}" for i in range(draw(st.integers(1, 2)))]
        for name in sequence:
            shuffled[name] = draw(st.sampled_from(["INT", "BIGINT", "DOUBLE", "DECIMAL(38, 3)", "DATE", "STRING"]))
        members = []
        for i in range(draw(st.integers(1, 3))):
            name = f"m{group}{i}"
            members.append(name)
            if aggregates is not False and (aggregates or draw(st.booleans())):
                function = draw(st.sampled_from(sorted(TYPES_OF)))
                shuffled[name] = draw(st.sampled_from(TYPES_OF[function]))
                options.update(draw(aggregate_options(name, function)))
            else:
                shuffled[name] = draw(st.sampled_from(SCALARS))
        options[f"fields.{','.join(sequence)}.sequence-group"] = ",".join(members)
    for i in range(draw(st.integers(0 if groups else 1, 2))):
        shuffled[f"p{i}"] = draw(st.sampled_from(["INT", "STRING", "ARRAY<INT>", "BOOLEAN", "DOUBLE NOT NULL"]))
    for name in draw(st.permutations(sorted(shuffled))):
        columns[name] = shuffled[name]
    retracts = draw(st.booleans())
    deletes = draw(st.sampled_from(["", "ignore", "remove"])) if retracts else ""
    if deletes == "ignore":
        options["ignore-delete"] = "true"
    elif deletes == "remove" and not groups:
        options["partial-update.remove-record-on-delete"] = "true"
    elif deletes == "remove":
        options["partial-update.remove-record-on-sequence-group"] = draw(
            st.sampled_from([name for name in columns if name.startswith("g")])
        )
    rows = draw(rows_for(columns, keys, retracts=retracts, nulls=0.3, pools=pools))
    return MergeCase(columns, keys, options, rows)


@st.composite
def deduplicate_cases(draw: st.DrawFn) -> MergeCase:
    """Tables with deduplicate, with and without sequence fields and deletes."""
    columns = draw(key_columns())
    keys = list(columns)
    options: dict[str, str] = {}
    for i in range(draw(st.integers(0, 2))):
        columns[f"s{i}"] = draw(st.sampled_from(["INT", "DOUBLE", "STRING", "DECIMAL(38, 3)", "TIMESTAMP(6)"]))
    columns["v"] = draw(st.sampled_from([*SCALARS, NESTED, "MAP<STRING, INT>"]))
    if sequence := [name for name in columns if name.startswith("s")]:
        options["sequence.field"] = ",".join(sequence)
        if draw(st.booleans()):
            options["sequence.field.sort-order"] = "descending"
    if draw(st.booleans()):
        options["ignore-delete"] = "true"
    return MergeCase(columns, keys, options, draw(rows_for(columns, keys, retracts=draw(st.booleans()), nulls=0.3)))


@st.composite
def aggregation_cases(draw: st.DrawFn, *, pools: Mapping[str, st.SearchStrategy[Any]] = VALUES) -> MergeCase:
    """Tables with aggregation: every function, a default one, `sequence.field`, deletes that remove the record."""
    columns = draw(key_columns())
    keys = list(columns)
    options: dict[str, str] = {"merge-engine": "aggregation"}
    removes = draw(st.integers(0, 3)) == 0
    if removes:
        options["aggregation.remove-record-on-delete"] = "true"
    if draw(st.integers(0, 2)) == 0:
        columns["s0"] = draw(st.sampled_from(["INT", "DOUBLE", "STRING", "TIMESTAMP(6)"]))
        options["sequence.field"] = "s0"
        if draw(st.booleans()):
            options["sequence.field.sort-order"] = "descending"
    for i in range(draw(st.integers(1, 3))):
        function = draw(st.sampled_from(sorted(TYPES_OF)))
        columns[f"v{i}"] = draw(st.sampled_from(TYPES_OF[function]))
        options.update(draw(aggregate_options(f"v{i}", function)))
        if removes:
            options.pop(f"fields.v{i}.ignore-retract", None)
    if draw(st.booleans()):
        columns["d"] = draw(st.sampled_from(["INT", "STRING", "DOUBLE", "ARRAY<INT>", "BIGINT NOT NULL"]))
        if draw(st.booleans()):
            options["fields.default-aggregate-function"] = draw(
                st.sampled_from(["last_value", "first_value", "first_non_null_value", "last_non_null_value"])
            )
    rows = draw(rows_for(columns, keys, retracts=draw(st.booleans()), nulls=0.3, pools=pools))
    return MergeCase(columns, keys, options, rows)


@st.composite
def first_row_cases(draw: st.DrawFn) -> MergeCase:
    """Tables with first-row, with and without deletes that are ignored."""
    columns = {**draw(key_columns()), "v": draw(st.sampled_from([*SCALARS, NESTED, "MAP<STRING, INT>"]))}
    keys = [name for name in columns if name != "v"]
    options = {"merge-engine": "first-row"}
    if draw(st.booleans()):
        options["ignore-delete"] = "true"
    return MergeCase(columns, keys, options, draw(rows_for(columns, keys, retracts=draw(st.booleans()), nulls=0.3)))
