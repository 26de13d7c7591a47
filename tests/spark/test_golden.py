"""Every golden table read through ``spark.read.format("paimon")`` gives Java's rows, as Spark shows them."""

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from paimon_spark import PaimonTable
from tests.support.golden import GoldenRead, not_yet, row_multiset
from tests.support.golden_frames import FULL, OF_ROWS, READS, as_spark_shows, collected
from tests.support.plain_source import plain_session

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

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


def with_padded_chars(rows: pa.Table, columns: dict[str, str]) -> pa.Table:
    """Columns of type CHAR(n) with blanks up to n characters, as Spark shows them."""
    for at, name in enumerate(rows.schema.names):
        declared = re.match(r"CHAR\((\d+)\)", columns.get(name, ""))
        if declared:
            rows = rows.set_column(at, name, pc.utf8_rpad(rows.column(name), int(declared[1])))
    return rows


def plain_type(data_type: pa.DataType) -> str:
    """The type without nullability and metadata."""
    return re.sub(" not null|: *'.*?'", "", str(data_type)).replace("item:", "element:")


def assert_javas_rows(spark: SparkSession, case: GoldenRead, entry_point: Callable[..., DataFrame] = load) -> None:
    got = collected(entry_point(spark, case))
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


ENTRY_POINTS: tuple[Callable[[SparkSession, GoldenRead], DataFrame], ...] = (
    lambda spark, case: plain_session(spark).read.format("paimon").load(path_of(case)),
    lambda spark, case: spark.sql(f"SELECT * FROM paimon.`{path_of(case)}`"),
    lambda spark, case: PaimonTable.for_path(spark, str(case.table.path)).to_df(branch=case.branch or None),
)
"""Other entry points than a load of a session that was registered; the plain source is the one of Connect."""


@pytest.mark.parametrize("at", range(0, len(FULL), 2), ids=lambda at: FULL[at].id)
def test_full_reads_by_other_entry_points(spark: SparkSession, at: int) -> None:
    assert_javas_rows(spark, FULL[at], ENTRY_POINTS[at // 2 % (2 if FULL[at].system else 3)])


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
