"""Laws of data files: what is written is read, for any types, values, slices and batch sizes."""

import datetime
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.errors import DataError, UnsupportedError
from paimon_spark.spec import data_types as t
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.predicate import And, Leaf, Or
from paimon_spark.storage.formats import create_data_file, open_data_file
from tests.support.data_files import LOCAL, comparable, read_file, write_file

STRING = t.VarCharType(t.VarCharType.MAX)
BYTES = t.VarBinaryType(t.VarBinaryType.MAX)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def epoch(seconds: int) -> st.SearchStrategy[int]:
    """Timestamps from 1700 to 2200, in parts of a second."""
    return st.integers(-8_500_000_000 * seconds, 7_250_000_000 * seconds)


ATOMS: list[tuple[t.DataType, st.SearchStrategy[Any]]] = [
    (t.BooleanType(), st.booleans()),
    (t.TinyIntType(), whole(8)),
    (t.SmallIntType(), whole(16)),
    (t.IntType(), whole(32)),
    (t.BigIntType(), whole(64)),
    (t.FloatType(), st.floats(width=32)),
    (t.DoubleType(), st.floats()),
    (t.DecimalType(5, 2), st.integers(-99_999, 99_999).map(lambda n: Decimal(n).scaleb(-2))),
    (t.DecimalType(18, 0), st.integers(-(10**18) + 1, 10**18 - 1).map(Decimal)),
    (t.DecimalType(38, 10), st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}E-10"))),
    (t.VarCharType(20), TEXTS),
    (BYTES, st.binary(max_size=9)),
    (t.DateType(), st.dates()),
    (t.TimeType(3), st.integers(0, 86_399_999)),
    (t.TimestampType(0), epoch(1)),
    (t.TimestampType(3), epoch(1000)),
    (t.TimestampType(6), epoch(10**6)),
    (t.LocalZonedTimestampType(6), epoch(10**6)),
]
NANOS = [(t.TimestampType(9), epoch(10**9)), (t.LocalZonedTimestampType(9), epoch(10**9))]

Typed = tuple[t.DataType, st.SearchStrategy[Any]]


def nested(inner: st.SearchStrategy[Typed], keys: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    def array(item: Typed) -> Typed:
        return t.ArrayType(item[0]), st.lists(item[1], max_size=3)

    def mapping(key: Typed, item: Typed) -> Typed:
        kind = t.MapType(key[0].with_nullable(False), item[0])
        return kind, st.dictionaries(key[1], item[1], max_size=3).map(lambda d: list(d.items()))

    def row(parts: list[Typed]) -> Typed:
        fields = tuple(t.DataField(100 + at, f"f{at}", kind) for at, (kind, _) in enumerate(parts))
        return t.RowType(fields), st.fixed_dictionaries({f"f{at}": values for at, (_, values) in enumerate(parts)})

    return st.one_of(
        inner.map(array), st.builds(mapping, keys, inner), st.lists(inner, min_size=1, max_size=3).map(row)
    )


def types(file_format: str) -> st.SearchStrategy[Typed]:
    atoms = ATOMS + (NANOS if file_format == "parquet" else [])

    def with_nulls(pair: Typed) -> st.SearchStrategy[Typed]:
        return st.booleans().map(
            lambda nullable: (pair[0].with_nullable(nullable), st.none() | pair[1] if nullable else pair[1])
        )

    leaf = st.sampled_from(atoms).flatmap(with_nulls)
    keys = st.sampled_from([(STRING, TEXTS), (t.IntType(), whole(32)), (t.DateType(), st.dates())])
    return st.recursive(leaf, lambda inner: nested(inner, keys).flatmap(with_nulls), max_leaves=4)


def refused(file_format: str, write: Callable[[], Any]) -> bool:
    """Write; whether ORC refused fractions of seconds before 1970."""
    if file_format != "orc":
        write()
        return False
    try:
        write()
    except DataError:
        with pytest.raises(DataError, match="before 1970"):
            write()
        return True
    return False


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_what_is_written_is_read(file_format: str, data: st.DataObject) -> None:
    columns = data.draw(st.lists(types(file_format), min_size=1, max_size=3))
    fields = [t.DataField(at, f"c{at}", kind) for at, (kind, _) in enumerate(columns)]
    rows = data.draw(st.lists(st.tuples(*(values for _, values in columns)), max_size=12))
    schema = to_arrow_schema(fields)
    table = pa.Table.from_arrays(
        [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)], schema=schema
    )
    first, second = data.draw(st.integers(0, 12)), data.draw(st.integers(0, 12))
    parts = [table.slice(0, first), table.slice(first, second), table.slice(first + second)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x.{file_format}"
        if refused(file_format, lambda: write_file(path, fields, *parts)):
            return
        found = read_file(path, fields, batch_rows=data.draw(st.integers(1, 20)))
        assert found.schema.equals(schema)
        assert comparable(found.to_pylist()) == comparable(table.to_pylist())


def test_timestamps_of_all_precisions_in_one_file(tmp_path: Path) -> None:
    kinds = [t.TimestampType(p) for p in (0, 3, 6, 9)] + [t.LocalZonedTimestampType(p) for p in (0, 3, 6, 9)]
    kinds += [t.ArrayType(t.TimestampType(3)), t.RowType((t.DataField(20, "x", t.LocalZonedTimestampType(0)),))]
    kinds += [t.MapType(STRING, t.TimestampType(6)), t.TimeType(0)]
    fields = [t.DataField(at, f"c{at}", kind) for at, kind in enumerate(kinds)]
    values: list[Any] = [-1, -1001, -1_000_001, -1_000_000_001] * 2
    values += [[-1001, None], {"x": -5}, [("k", 7)], 86_399_999]
    schema = to_arrow_schema(fields)
    table = pa.Table.from_arrays(
        [pa.array([value, None], field.type) for value, field in zip(values, schema, strict=True)], schema=schema
    )
    result = write_file(tmp_path / "x.parquet", fields, table)
    assert read_file(tmp_path / "x.parquet", fields).equals(table)
    file = pq.ParquetFile(tmp_path / "x.parquet")
    physical = {file.schema.column(at).path: file.schema.column(at) for at in range(len(file.schema))}
    assert [physical[f"c{at}"].physical_type for at in range(8)] == ["INT64", "INT64", "INT64", "INT96"] * 2
    assert '"isAdjustedToUTC":false,"timeUnit":"milliseconds"' in physical["c1"].logical_type.to_json()
    assert '"isAdjustedToUTC":true,"timeUnit":"microseconds"' in physical["c6"].logical_type.to_json()
    assert '"timeUnit":"milliseconds"' in physical["c8.list.element"].logical_type.to_json()
    assert '"isAdjustedToUTC":true,"timeUnit":"milliseconds"' in physical["c11"].logical_type.to_json()
    assert result.column_stats["c1"].min_value == pa.scalar(-1001, schema.field("c1").type)
    assert result.column_stats["c0"].max_value == pa.scalar(-1, schema.field("c0").type)
    assert "c3" not in result.column_stats


def test_nanoseconds_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    far = pa.table({"c0": pa.array([datetime.datetime(9999, 12, 31)], pa.timestamp("us"))})
    pq.write_table(far, tmp_path / "x.parquet", use_deprecated_int96_timestamps=True)
    with pytest.raises(DataError, match=r"'c0'.*2262.*x\.parquet"):
        read_file(tmp_path / "x.parquet", [t.DataField(0, "c0", t.TimestampType(9))])
    assert read_file(tmp_path / "x.parquet", [t.DataField(0, "c0", t.TimestampType(6))]).equals(far)


def test_predicates_and_row_groups(tmp_path: Path) -> None:
    fields = [
        t.DataField(0, "a", t.IntType(nullable=False)),
        t.DataField(1, "s", STRING),
        t.DataField(2, "d", t.DecimalType(20, 2)),
        t.DataField(3, "ts", t.TimestampType(0)),
        t.DataField(4, "f", t.DoubleType()),
    ]
    schema = to_arrow_schema(fields)
    numbers = list(range(1000))
    table = pa.Table.from_arrays(
        [
            pa.array(numbers, pa.int32()),
            pa.array([f"{n:05}" for n in numbers]),
            pa.array([Decimal(n) for n in numbers], pa.decimal128(20, 2)),
            pa.array(numbers, pa.timestamp("s")),
            pa.array([float("nan") if n == 150 else float(n) for n in numbers]),
        ],
        schema=schema,
    )
    write_file(tmp_path / "x.parquet", fields, table, options={"parquet.block.row.count.limit": "100"})
    with open_data_file(LOCAL, str(tmp_path / "x.parquet"), "parquet") as reader:
        assert list(reader.row_group_rows) == [100] * 10
        assert reader.prune_row_groups(Leaf("eq", "a", (250,))) == [2]
        assert reader.prune_row_groups(Leaf("lt", "s", ("00150",))) == [0, 1]
        assert reader.prune_row_groups(Leaf("ge", "d", (Decimal("899.5"),))) == [9]
        assert reader.prune_row_groups(Leaf("eq", "ts", (datetime.datetime(1970, 1, 1, 0, 5),))) == [3]
        assert reader.prune_row_groups(And((Leaf("eq", "a", (5,)), Leaf("eq", "s", ("00900",))))) == []
        assert reader.prune_row_groups(Or((Leaf("eq", "a", (5,)), Leaf("eq", "s", ("00900",))))) == [0, 9]
        assert 1 in reader.prune_row_groups(Leaf("gt", "f", (5000.0,))), "NaN is greater than every number"
        assert reader.prune_row_groups(Leaf("lt", "f", (50.0,))) == [0]
        assert reader.prune_row_groups(Leaf("is_null", "a", ())) == []
        assert reader.prune_row_groups(Leaf("eq", "unknown", (1,))) == list(range(10))
        found = pa.Table.from_batches(
            list(
                reader.read_batches(fields[:2], row_groups=[7, 2], predicate=Leaf("in", "a", (50, 200, 250, 700, 750)))
            )
        )
    assert found["a"].to_pylist() == [700, 750, 200, 250]


def test_orc_stripes_are_pruned(tmp_path: Path) -> None:
    fields = [t.DataField(0, "a", t.BigIntType()), t.DataField(1, "s", STRING), t.DataField(2, "dt", t.DateType())]
    size = 100_000
    table = pa.Table.from_arrays(
        [
            pa.array(range(size)),
            pa.array([f"{n:06}{n * 7919 % 100_003:06}" for n in range(size)]),
            pa.array(range(size), pa.int32()).view(pa.date32()),
        ],
        schema=to_arrow_schema(fields),
    )
    parts = [table.slice(start, 10_000) for start in range(0, size, 10_000)]
    write_file(tmp_path / "x.orc", fields, *parts, options={"orc.stripe.size": "100000"})
    with open_data_file(LOCAL, str(tmp_path / "x.orc"), "orc") as reader:
        assert reader.num_row_groups > 1
        ends = [sum(reader.row_group_rows[: at + 1]) for at in range(reader.num_row_groups)]
        holds = next(at for at, end in enumerate(ends) if end > 77_777)
        assert reader.prune_row_groups(Leaf("eq", "a", (77_777,))) == [holds]
        assert reader.prune_row_groups(Leaf("starts_with", "s", ("077777",))) == [holds]
        day = datetime.date(1970, 1, 1) + datetime.timedelta(77_777)
        assert reader.prune_row_groups(Leaf("eq", "dt", (day,))) == [holds]
        assert reader.prune_row_groups(Leaf("is_null", "a", ())) == []
    assert read_file(tmp_path / "x.orc", fields).equals(table)


def test_a_column_that_the_file_lacks_is_null_or_an_error(tmp_path: Path) -> None:
    fields = [t.DataField(0, "a", t.IntType())]
    for file_format in ("parquet", "orc", "avro"):
        path = tmp_path / f"x.{file_format}"
        write_file(path, fields, pa.table({"a": pa.array([1, 2], pa.int32())}))
        missing = t.DataField(1, "b", t.ArrayType(t.IntType()))
        assert read_file(path, [missing, *fields]).to_pylist() == [{"b": None, "a": 1}, {"b": None, "a": 2}]
        assert read_file(path, [missing]).to_pylist() == [{"b": None}, {"b": None}]
        with open_data_file(LOCAL, str(path), file_format) as reader:
            assert sum(batch.num_rows for batch in reader.read_batches([])) == 2


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_empty_files(tmp_path: Path, file_format: str) -> None:
    fields = [t.DataField(0, "a", t.IntType())]
    path = tmp_path / f"x.{file_format}"
    assert write_file(path, fields).row_count == 0
    assert read_file(path, fields).num_rows == 0


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_the_estimate_of_the_size_is_fair(tmp_path: Path, file_format: str) -> None:
    fields = [t.DataField(0, "a", t.BigIntType()), t.DataField(1, "s", STRING)]
    numbers = pc.multiply(pa.array(range(200_000)), 2_654_435_761)
    table = pa.table({"a": numbers, "s": numbers.cast(pa.string())})
    path = tmp_path / f"x.{file_format}"
    writer = create_data_file(LOCAL, str(path), file_format, fields)
    seen = []
    for start in range(0, table.num_rows, 20_000):
        writer.write(table.slice(start, 20_000))
        seen.append(writer.bytes_written)
    size = writer.close().size_bytes
    assert seen == sorted(seen)
    assert size / 3 < seen[-1] < size * 3


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_an_aborted_file_is_gone(tmp_path: Path, file_format: str) -> None:
    path = tmp_path / "d" / f"x.{file_format}"
    writer = create_data_file(LOCAL, str(path), file_format, [t.DataField(0, "a", t.IntType())])
    writer.write(pa.table({"a": pa.array([1], pa.int32())}))
    writer.abort()
    assert list((tmp_path / "d").iterdir()) == []


def test_what_a_format_cannot_hold_is_refused(tmp_path: Path) -> None:
    cases = [
        ("orc", t.VariantType()),
        ("avro", t.VariantType()),
        ("avro", t.TimestampType(9)),
        ("avro", t.TimeType(6)),
        ("avro", t.ArrayType(t.LocalZonedTimestampType(7))),
    ]
    for file_format, kind in cases:
        with pytest.raises(UnsupportedError, match="parquet"):
            create_data_file(LOCAL, str(tmp_path / "x"), file_format, [t.DataField(0, "a", kind)])
    for file_format in ("parquet", "orc", "avro"):
        with pytest.raises(UnsupportedError, match=r"file\.compression"):
            create_data_file(LOCAL, str(tmp_path / "x"), file_format, [], compression="brotli")
    with pytest.raises(UnsupportedError, match=r"'csv'.*file\.format"):
        open_data_file(LOCAL, str(tmp_path / "x"), "csv")
    assert list(tmp_path.iterdir()) == []
