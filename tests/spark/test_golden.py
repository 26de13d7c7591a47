"""Every golden table read through ``spark.read.format("paimon")`` gives Java's rows, as Spark shows them."""

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import VariantType, VariantVal
from support.golden import GoldenRead, follows_a_java_bug, golden_reads, not_yet, row_multiset
from support.plain_source import plain_session

from paimon_spark import PaimonTable

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

READS = [case for case in golden_reads() if not follows_a_java_bug(case)]
OF_ROWS = [case for case in READS if not case.error and not_yet(case) is None]
FULL = [case for case in OF_ROWS if not case.columns and not case.read.get("filter") and not case.options]
TRAVELS = [case for case in OF_ROWS if case.options]
NARROW = [case for case in OF_ROWS if case.columns or case.read.get("filter")]


def load(spark: SparkSession, case: GoldenRead) -> DataFrame:
    path = str(case.table.path) + (f"$branch_{case.branch}" if case.branch else "")
    path += f"${case.system}" if case.system else ""
    reader = spark.read.format("paimon").options(**case.options)
    if case.columns:
        reader = reader.option("columns", ",".join(f"`{name}`" for name in case.columns))
    condition = case.sql_filter(case.table.expect["columns"])
    if condition:
        reader = reader.option("filter", condition)
    return reader.load(path)


def as_spark_shows(rows: pa.Table) -> pa.Table:
    """Java's rows in Spark's types: microseconds, times as numbers."""
    return pa.table(
        [_shown(column.combine_chunks()) for column in rows.columns],
        schema=pa.schema([(name, _shown_type(rows.schema.field(name).type)) for name in rows.schema.names]),
    )


def with_padded_chars(rows: pa.Table, columns: dict[str, str]) -> pa.Table:
    """Columns of type CHAR(n) with blanks up to n characters, as Spark shows them."""
    for at, name in enumerate(rows.schema.names):
        declared = re.match(r"CHAR\((\d+)\)", columns.get(name, ""))
        if declared:
            rows = rows.set_column(at, name, pc.utf8_rpad(rows.column(name), int(declared[1])))
    return rows


def _shown_type(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(data_type):
        return pa.timestamp("us", data_type.tz)
    if pa.types.is_time(data_type):
        return pa.int32()
    if pa.types.is_map(data_type):
        return pa.map_(_shown_type(data_type.key_type), _shown_type(data_type.item_type))
    if pa.types.is_list(data_type):
        return pa.list_(_shown_type(data_type.value_type))
    if pa.types.is_struct(data_type):
        return pa.struct([(f.name, _shown_type(f.type)) for f in data_type])
    return data_type


def _shown(array: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        plain = array.cast(pa.timestamp("ns"))
        return pc.floor_temporal(plain, unit="microsecond").cast(pa.timestamp("us")).cast(_shown_type(array.type))
    if pa.types.is_time(array.type):
        return array.view(pa.int32())
    return array.cast(_shown_type(array.type), safe=False)


def collected(df: DataFrame) -> pa.Table:
    """Rows as Arrow, so that neither Python's time zones nor its floats come between."""
    if not any(isinstance(field.dataType, VariantType) for field in df.schema.fields):
        return df.toArrow()
    # Spark 4.3: toArrow() fails on a null variant ("nulls in input cannot be viewed as non-nullable")
    columns = list(zip(*df.collect(), strict=True))
    plain = [
        [{"value": v.value, "metadata": v.metadata} if isinstance(v, VariantVal) else v for v in c] for c in columns
    ]
    parts = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
    types = [parts if isinstance(field.dataType, VariantType) else to_arrow_type(field.dataType) for field in df.schema]
    return pa.table([pa.array(c, t) for c, t in zip(plain, types, strict=True)], names=df.columns)


def plain_type(data_type: pa.DataType) -> str:
    """The type without nullability and metadata."""
    return re.sub(" not null|: *'.*?'", "", str(data_type)).replace("item:", "element:")


def assert_javas_rows(spark: SparkSession, case: GoldenRead, door: Callable[..., DataFrame] = load) -> None:
    got = collected(door(spark, case))
    want = with_padded_chars(as_spark_shows(case.rows()), dict(case.table.expect["columns"]))
    assert got.schema.names == want.schema.names
    unordered = case.read.get("unordered_columns") or ()
    for name in want.schema.names:
        assert plain_type(got.schema.field(name).type) == plain_type(want.schema.field(name).type)
    assert row_multiset(got, unordered) == row_multiset(want, unordered)


@pytest.mark.parametrize("case", FULL, ids=lambda case: case.id)
def test_full_reads(spark: SparkSession, case: GoldenRead) -> None:
    assert_javas_rows(spark, case)


def path_of(case: GoldenRead) -> str:
    branch, system = (f"{mark}{name}" if name else "" for mark, name in (("$branch_", case.branch), ("$", case.system)))
    return f"{case.table.path}{branch}{system}"


DOORS: tuple[Callable[[SparkSession, GoldenRead], DataFrame], ...] = (
    lambda spark, case: plain_session(spark).read.format("paimon").load(path_of(case)),
    lambda spark, case: spark.sql(f"SELECT * FROM paimon.`{path_of(case)}`"),
    lambda spark, case: PaimonTable.for_path(spark, str(case.table.path)).to_df(branch=case.branch or None),
)
"""Other doors than a load of a session that was registered; the plain source is the one of Connect."""


@pytest.mark.parametrize("at", range(len(FULL)), ids=lambda at: FULL[at].id)
def test_full_reads_by_other_doors(spark: SparkSession, at: int) -> None:
    assert_javas_rows(spark, FULL[at], DOORS[at % (2 if FULL[at].system else 3)])


@pytest.mark.parametrize("case", TRAVELS[::5], ids=lambda case: case.id)
def test_time_travel(spark: SparkSession, case: GoldenRead) -> None:
    assert_javas_rows(spark, case)


@pytest.mark.parametrize("case", NARROW[::10], ids=lambda case: case.id)
def test_columns_and_filters(spark: SparkSession, case: GoldenRead) -> None:
    assert_javas_rows(spark, case)


@pytest.mark.parametrize("case", [c for c in READS if c.error and not_yet(c) is None][:6], ids=lambda case: case.id)
def test_where_java_fails_so_do_we(spark: SparkSession, case: GoldenRead) -> None:
    with pytest.raises(PySparkException):
        load(spark, case).collect()


def test_there_are_cases_of_every_kind() -> None:
    assert len(FULL) > 60
    assert len(TRAVELS) > 100
    assert len(NARROW) > 100
