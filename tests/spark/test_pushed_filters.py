"""Predicates that Spark pushes to a table of the catalog mean there what they mean in Spark.

Hypothesis makes conditions; the same rows stand in a table (three files, so that statistics leave some out) and in a
temporary view. Checked are the rows that come out, and that the predicates which were pushed keep every row that Spark
keeps: exactly those rows, where the whole condition was pushed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import paimon_spark
from paimon_spark.spark.catalog import pushed_expressions
from paimon_spark.spark.catalog.scan import ScanBuilderProxy
from paimon_spark.spark.catalog.scan_plan import ScanPlan
from paimon_spark.spec.predicate import Leaf, Predicate, all_of, evaluate

pytestmark = pytest.mark.spark

COLUMNS = (
    "id INT, i INT, l BIGINT, d DOUBLE, f FLOAT, m DECIMAL(10, 2), s STRING, b BOOLEAN, day DATE, at TIMESTAMP_NTZ, "
    "tz TIMESTAMP, y BINARY"
)
NAN, INF = float("nan"), float("inf")
VALUES: dict[str, list[Any]] = {
    "i": [None, 0, 1, -1, 7, 2**31 - 1, -(2**31)],
    "l": [None, 0, 1, -(2**63), 2**63 - 1, 7],
    "d": [None, 0.0, -0.0, 1.5, NAN, INF, -INF, -1.5],
    "f": [None, 0.0, -0.0, 1.5, NAN, INF, 0.1],
    "m": [None, *map(Decimal, ("0.00", "1.50", "-0.01", "99999999.99", "-99999999.99"))],
    "s": [None, "", "a", "a%", "%", "_", "a_b", "ab%c", "aXb", "o'k", "é", "a\\b", "zz" * 20],
    "b": [None, True, False],
    "day": [None, date(1, 1, 1), date(1582, 10, 10), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)],
    "at": [None, datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29, 12, 30, 0, 1)],
    "tz": [None, datetime(1900, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29, 12, 30)],
    "y": [None, b"", b"\x00", b"a", b"\xff\x00"],
}
LITERALS = {
    "i": ["0", "1", "-1", "7", "2147483647", "5", "CAST(NULL AS INT)"],
    "l": ["0L", "7L", "9223372036854775807L", "-5L", "CAST(NULL AS BIGINT)"],
    "d": ["0.0D", "-0.0D", "1.5D", "CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)", "2.5D"],
    "f": [*(f"CAST('{text}' AS FLOAT)" for text in ("0", "-0.0", "1.5", "NaN", "0.1", "-Infinity"))],
    "m": [*(f"CAST('{text}' AS DECIMAL(10, 2))" for text in ("0", "1.5", "-0.01", "99999999.99", "2"))],
    "s": ["''", "'a'", "'a%'", "'%'", "'_'", "'a_b'", "'o\\'k'", "'é'", "'a\\\\b'", "'b'", "CAST(NULL AS STRING)"],
    "b": ["true", "false"],
    "day": ["DATE'0001-01-01'", "DATE'1582-10-10'", "DATE'1970-01-01'", "DATE'2024-02-29'"],
    "at": [
        "TIMESTAMP_NTZ'0001-01-01 00:00:00'",
        "TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'",
        "TIMESTAMP_NTZ'2024-02-29 12:30:00.000001'",
    ],
    "tz": ["TIMESTAMP'1900-01-01 00:00:00'", "TIMESTAMP'1970-01-01 00:00:00'", "TIMESTAMP'2024-02-29 12:30:00'"],
    "y": ["X''", "X'00'", "X'61'", "X'FF'"],
}
PATTERNS = ["'a%'", "'%b'", "'%\\\\%%'", "'a\\\\_b'", "'a_b'", "'%a%'", "'_'", "'%'", "''", "'a%c'"]
FILES, ALL_IDS = 3, range(39)
MARK = -1000
"""`id > MARK - n` marks the scan of the n-th condition of a query."""


@st.composite
def leaves(draw: st.DrawFn) -> tuple[str, bool]:
    """A condition about one column, and whether Spark can push it as it is."""
    column = draw(st.sampled_from(sorted(LITERALS)))
    literal = st.sampled_from(LITERALS[column])
    kind = draw(st.sampled_from(["compare", "compare", "mirrored", "in", "not in", "null", "between", "text", "other"]))
    if kind in ("compare", "mirrored"):
        operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]))
        left, right = (column, draw(literal)) if kind == "compare" else (draw(literal), column)
        return f"{left} {operator} {right}", True
    if kind in ("in", "not in"):
        return f"{column} {kind.upper()} ({', '.join(draw(st.lists(literal, min_size=1, max_size=4)))})", True
    if kind == "null":
        return f"{column} IS {draw(st.sampled_from(['', 'NOT ']))}NULL", True
    if kind == "between":
        return f"{column} BETWEEN {draw(literal)} AND {draw(literal)}", True
    if kind == "text":
        text = draw(st.sampled_from(LITERALS["s"]))
        like = f"s {draw(st.sampled_from(['', 'NOT ']))}LIKE {draw(st.sampled_from(PATTERNS))}"
        function = f"{draw(st.sampled_from(['startswith', 'endswith', 'contains']))}(s, {text})"
        return draw(st.sampled_from([(like, False), (function, True)]))
    return draw(st.sampled_from(["length(s) = 1", "i % 2 = 1", "year(day) = 2024", "l = i", "s > 'a' || 'b'"])), False


def _joined(parts: st.SearchStrategy[tuple[str, bool]]) -> st.SearchStrategy[tuple[str, bool]]:
    pairs = st.tuples(parts, st.sampled_from(["AND", "OR"]), parts)
    return st.one_of(
        pairs.map(lambda pair: (f"({pair[0][0]}) {pair[1]} ({pair[2][0]})", pair[0][1] and pair[2][1])),
        parts.map(lambda part: (f"NOT ({part[0]})", part[1])),
    )


CONDITIONS = st.recursive(leaves(), _joined, max_leaves=5)


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pa.Table]:
    """The rows, in the table `t` of the current catalog and in the view `pushed_rows`."""
    data = [
        (number, *(values[(number * (1 + at)) % len(values)] for at, values in enumerate(VALUES.values())))
        for number in ALL_IDS
    ]
    paimon_spark.register_catalog(spark, "pushed", warehouse=str(tmp_path_factory.mktemp("pushed")))
    spark.sql("CREATE DATABASE pushed.db")
    spark.sql("USE pushed.db")
    spark.sql(f"CREATE TABLE t ({COLUMNS})")
    frame = spark.createDataFrame(data, COLUMNS)
    for third in range(FILES):
        frame.where(f"id % {FILES} = {third}").coalesce(1).writeTo("t").append()
    frame.createOrReplaceTempView("pushed_rows")
    yield frame.toArrow()
    spark.catalog.dropTempView("pushed_rows")
    spark.sql("USE spark_catalog.default")


class Scans:
    """Notes the builder of each scan, by its mark, and how many predicates Spark offered to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.builders: dict[int, ScanBuilderProxy] = {}
        self.offered: dict[int, int] = {}
        take = ScanBuilderProxy._take

        def noted(builder: ScanBuilderProxy, predicates: Any) -> Any:
            taken = take(builder, predicates)
            for mark in (leaf.literals[0] for leaf in builder.predicates if _is_mark(leaf)):
                self.builders[MARK - mark] = builder
                self.offered[MARK - mark] = len(list(predicates)) - 1
            return taken

        monkeypatch.setattr(ScanBuilderProxy, "_take", noted)

    def taken(self, number: int) -> tuple[Predicate, ...]:
        """The predicates that the scan of a condition took, without its mark."""
        return tuple(leaf for leaf in self.builders[number].predicates if not _is_mark(leaf))


def _is_mark(predicate: Predicate) -> bool:
    is_leaf = isinstance(predicate, Leaf) and predicate.op == "gt" and predicate.field == "id"
    return is_leaf and predicate.literals[0] <= MARK


@pytest.mark.thorough
def test_pushed_predicates_mean_what_they_mean_in_spark(spark: SparkSession, rows: pa.Table) -> None:
    """Hundreds of conditions: Spark plans the scans and judges the rows, and the scans are read here."""
    exact, left_out = 0, 0

    @settings(max_examples=5, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
    @given(st.lists(CONDITIONS, min_size=100, max_size=100))
    def check(conditions: list[tuple[str, bool]]) -> None:
        nonlocal exact, left_out
        texts = [text for text, _ in conditions]
        with pytest.MonkeyPatch.context() as monkeypatch:
            scans = Scans(monkeypatch)
            _marked(spark, texts)._jdf.queryExecution().optimizedPlan()
        for number, ((text, pushable), expected) in enumerate(zip(conditions, _expected(spark, texts), strict=True)):
            if number not in scans.builders:
                assert not expected, f"{text} is never true, Spark says"
                continue
            ours = scans.taken(number)
            allowed = set(rows.column("id").filter(evaluate(all_of(ours), rows)).to_pylist() if ours else ALL_IDS)
            assert expected <= allowed, f"{text} was pushed as {ours}"
            kept, files = _read(scans.builders[number])
            assert expected <= kept <= allowed, f"{text} was pushed as {ours} and read from {files} files"
            left_out += files < FILES
            if ours and pushable and len(ours) == scans.offered[number]:
                exact += 1
                assert allowed == expected, f"{text} was pushed as {ours}"

    check()
    assert exact >= 200
    assert left_out >= 50


def _read(builder: ScanBuilderProxy) -> tuple[set[int], int]:
    """The rows that the tasks of a scan read, and the number of files they read."""
    struct = StructType([field for field in builder.struct.fields if field.name == "id"])
    plan = ScanPlan(builder.table, struct, builder.predicates)
    reader = plan.reader()
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return {number for batch in batches for number in batch.column("id").to_pylist()}, len(plan.file_names)


def test_rows_of_pushed_predicates(spark: SparkSession, rows: pa.Table) -> None:
    """The whole way, for a few."""

    @settings(max_examples=1, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
    @given(st.lists(CONDITIONS, min_size=16, max_size=16))
    def check(conditions: list[tuple[str, bool]]) -> None:
        texts = [text for text, _ in conditions]
        found: list[set[int]] = [set() for _ in texts]
        for number, row_id in _marked(spark, texts).collect():
            found[number].add(row_id)
        for text, kept, expected in zip(texts, found, _expected(spark, texts), strict=True):
            assert kept == expected, text

    check()


def _marked(spark: SparkSession, conditions: list[str]) -> DataFrame:
    """The rows of the table for which each condition is true, each scan with its mark."""
    scans = [f"SELECT {n} AS n, id FROM t WHERE ({text}) AND id > {MARK - n}" for n, text in enumerate(conditions)]
    return spark.sql(" UNION ALL ".join(scans))


def _expected(spark: SparkSession, conditions: list[str]) -> list[set[int]]:
    """The same by Spark alone."""
    columns = ", ".join(f"({text}) AS c{n}" for n, text in enumerate(conditions))
    answers = spark.sql(f"SELECT id, {columns} FROM pushed_rows").collect()
    return [{row[0] for row in answers if row[1 + number]} for number in range(len(conditions))]


def test_long_lists_come_in_one_call(spark: SparkSession, rows: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values of an IN list are not asked for one by one, and are the same."""
    monkeypatch.delattr(pushed_expressions._Translator, "_listed")  # what values that come one by one would need
    lists = [f"{column} {word} ({', '.join(LITERALS[column])})" for column in LITERALS for word in ("IN", "NOT IN")]
    numbers = ", ".join(map(str, range(-1, 5000)))
    texts = [text for text in lists if not text.startswith("b ")] + [f"i IN ({numbers})", f"l NOT IN ({numbers}, NULL)"]
    scans = Scans(monkeypatch)
    _marked(spark, texts)._jdf.queryExecution().optimizedPlan()
    for number, (text, expected) in enumerate(zip(texts, _expected(spark, texts), strict=True)):
        if number not in scans.builders:
            assert not expected, text
            continue
        ours = scans.taken(number)
        assert ours, text
        assert set(rows.column("id").filter(evaluate(all_of(ours), rows)).to_pylist()) == expected, text
