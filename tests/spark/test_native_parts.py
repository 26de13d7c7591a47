"""Scans of which Spark's own Parquet reader reads some files and ours the rest, which have to be merged."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from paimon_spark.spark.jobs.compact_job import in_tasks
from tests.support.golden import row_multiset
from tests.support.golden_frames import collected

pytestmark = [pytest.mark.spark, pytest.mark.catalog("parts", current=True), pytest.mark.usefixtures("reads_by_tasks")]

NATIVE = "reader=spark-parquet"
KINDS = {
    "partial": "'merge-engine' = 'partial-update', 'fields.g.sequence-group' = 'v,w'",
    "summed": "'merge-engine' = 'aggregation', 'fields.g.aggregate-function' = 'sum', "
    "'fields.v.aggregate-function' = 'max'",
    "rows": "'merge-engine' = 'deduplicate', 'sequence.field' = 'g'",
    "vectors": "'merge-engine' = 'deduplicate', 'deletion-vectors.enabled' = 'true'",
    "changed": "'merge-engine' = 'partial-update'",
    "grouped": "'merge-engine' = 'partial-update', 'fields.g.sequence-group' = 'v,w', "
    "'parquet.block.row.count.limit' = '64'",
    "totals": "'merge-engine' = 'aggregation', 'fields.g.aggregate-function' = 'sum', "
    "'parquet.block.row.count.limit' = '64'",
}
"""Row groups of 64 rows let files that overlap be cut."""
QUERIES = [
    "SELECT * FROM {t}",
    "SELECT count(*), sum(k), max(v) FROM {t}",
    "SELECT v FROM {t} WHERE k % 7 = 3 AND g > 5",
    "SELECT p, v FROM {t} WHERE p = 'a' OR k = 1900",
    "SELECT a.k, b.v FROM {t} a JOIN {t} b ON a.k = b.k + 1",
    "SELECT m.k, m.w FROM {t} m JOIN (SELECT DISTINCT p FROM {t} WHERE k = 5) d ON m.p = d.p",
    "SELECT k, (SELECT max(g) FROM {t}) x FROM {t} WHERE v IN (SELECT v FROM {t} WHERE p = 'b')",
    "SELECT k FROM {t} ORDER BY k DESC LIMIT 3",
    "SELECT p, count(DISTINCT v), sum(g + k) FROM {t} GROUP BY p",
    "SELECT k FROM {t} UNION ALL SELECT g FROM {t}",
]


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paimon_spark.spark.catalog.native_scan._LEAST_NATIVE_ROWS", 100)
    monkeypatch.setattr("paimon_spark.read.row_group_sections.LEAST_ROWS", 50)
    monkeypatch.setattr("paimon_spark.read.row_group_sections._LEAST_MERGED_BYTES", 1)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, warehouse: Path) -> dict[str, str]:
    """Tables of a compacted partition and one of files that overlap; of one some files have other columns."""
    for name, options in KINDS.items():
        spark.sql(
            f"CREATE TABLE {name} (k BIGINT NOT NULL, v STRING, w STRING, g BIGINT, p STRING NOT NULL) PARTITIONED BY "
            f"(p) TBLPROPERTIES ('primary-key' = 'p,k', 'bucket' = '2', 'write-only' = 'true', {options})"
        )
        insert(spark, name, 0, 1, "a")
        insert(spark, name, 0, 3, "a")
        spark.sql(f"CALL sys.compact(table => '{name}', compact_strategy => 'full')").collect()
        if name == "changed":
            spark.sql(f"ALTER TABLE {name} ADD COLUMN x INT")
            spark.sql(f"INSERT INTO {name} SELECT id, 'x', 'y', id, 'c', 7 FROM range(500)")
            spark.sql(f"CALL sys.compact(table => '{name}', compact_strategy => 'full')").collect()
        for low, step in ((1000, 1), (1100, 2)):
            insert(spark, name, low, step, "b")
    return dict.fromkeys(KINDS, "")


def insert(spark: SparkSession, table: str, low: int, step: int, p: str) -> None:
    rows = spark.range(low, low + 1000 * step, step, 1)
    rows = rows.selectExpr("id k", f"concat('v', id % 100, '-{step}') v", "hex(id) w", f"id + {step} g", f"'{p}' p")
    if table == "changed" and p == "b":
        rows = rows.selectExpr("*", "CAST(k AS INT) x")
    rows.writeTo(table).append()


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_of_both_parts_are_those_of_the_table(
    spark: SparkSession, tables: dict[str, str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paimon_spark.spark.catalog.native_scan.is_worth_filtering", lambda *_args, **_named: False)
    cut = 0
    for query in QUERIES:
        frame = spark.sql(query.format(t=kind))
        plan = frame._jdf.queryExecution().executedPlan().toString()
        cut += NATIVE in plan and "merged splits" in plan
        ours = spark.sql(query.format(t=f"{kind} WITH (`read.spark-parquet` = 'false')"))
        assert NATIVE not in ours._jdf.queryExecution().executedPlan().toString()
        assert row_multiset(collected(frame)) == row_multiset(collected(ours)), query
    assert cut >= 6 or kind == "vectors"  # whose files of level 0 wait for their compaction


def test_what_is_cut_and_what_is_not(spark: SparkSession, tables: dict[str, str]) -> None:
    def plan(query: str) -> str:
        return str(spark.sql(query)._jdf.queryExecution().executedPlan().toString())

    whole = plan("SELECT * FROM partial")
    assert (whole.count("BatchScan"), whole.count(NATIVE), whole.count("merged splits")) == (2, 1, 1)
    assert "Union" in whole
    assert NATIVE in plan("SELECT * FROM partial WHERE p = 'a'")
    assert "Union" not in plan("SELECT * FROM partial WHERE p = 'a'")
    assert NATIVE not in plan("SELECT * FROM partial WHERE p = 'b'")
    assert "Union" not in plan("SELECT * FROM partial LIMIT 5")
    filtered = plan("SELECT k FROM partial WHERE v > 'v3' AND g % 2 = 1")
    assert filtered.count("Filter") >= 2  # each side has its own
    assert filtered.index("Union") < filtered.index("Filter")


@pytest.mark.parametrize("kind", ["grouped", "totals"])
def test_row_groups_that_nothing_overlaps_are_read_as_they_are(
    spark: SparkSession, tables: dict[str, str], kind: str
) -> None:
    query = f"SELECT * FROM {kind} WHERE p = 'b'"
    frame = spark.sql(query)
    plan = str(frame._jdf.queryExecution().executedPlan().toString())
    assert (plan.count("BatchScan"), plan.count(NATIVE), plan.count("merged splits")) == (2, 1, 1)
    ours = spark.sql(query.replace(kind, f"{kind} WITH (`read.spark-parquet` = 'false')"))
    assert row_multiset(collected(frame)) == row_multiset(collected(ours))


def test_one_bucket_is_merged_by_several_tasks(
    spark: SparkSession, tables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql(
        "CREATE TABLE one (k BIGINT NOT NULL, v STRING, w STRING, g BIGINT, p STRING NOT NULL) TBLPROPERTIES "
        f"('primary-key' = 'p,k', 'bucket' = '1', 'write-only' = 'true', {KINDS['grouped']})"
    )
    for low, step in ((0, 1), (0, 3), (7, 2)):
        insert(spark, "one", low, step, "a")
        insert(spark, "one", low, step, "b")
    wanted = row_multiset(collected(spark.table("one")))
    assert spark.table("one").rdd.getNumPartitions() == 1
    monkeypatch.setattr("paimon_spark.spark.source.reader.task_slots", lambda: 8)
    assert spark.table("one").rdd.getNumPartitions() > 1
    assert row_multiset(collected(spark.table("one"))) == wanted
    assert spark.sql("SELECT count(*) FROM one WHERE g > 100 AND v >= 'v2'").first() is not None


def test_partial_updates_of_whole_rows_are_read_as_newest_rows(spark: SparkSession, tables: dict[str, str]) -> None:
    """Where a newer file has a null in a column of the query, rows are merged."""
    spark.sql(
        "CREATE TABLE newest (k BIGINT NOT NULL, v STRING, w STRING, g BIGINT) TBLPROPERTIES ('primary-key' = 'k', "
        "'bucket' = '2', 'write-only' = 'true', 'merge-engine' = 'partial-update')"
    )
    spark.sql("INSERT INTO newest SELECT id, hex(id), IF(id % 3 = 0, NULL, 'w'), id FROM range(2000)")
    spark.sql("INSERT INTO newest SELECT id, hex(id + 1), 'x', IF(id % 5 = 0, NULL, id) FROM range(500, 3000, 2)")
    for columns, native in (("*", False), ("g", False), ("k, v, w", True), ("w", True), ("v, k", True)):
        for condition in ("", " WHERE v > '7' AND w IS NOT NULL", " WHERE k % 3 = 1"):
            frame = spark.sql(f"SELECT {columns} FROM newest{condition}")
            plan = str(frame._jdf.queryExecution().executedPlan().toString())
            assert (plan.count(NATIVE), plan.count("BatchScan")) == (int(native), 1), (columns, condition)
            ours = spark.sql(f"SELECT {columns} FROM newest WITH (`read.spark-parquet` = 'false'){condition}")
            assert row_multiset(collected(frame)) == row_multiset(collected(ours)), (columns, condition)


def test_keys_of_many_rows_are_merged_by_a_job(
    spark: SparkSession, tables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql("CREATE TABLE many (k BIGINT NOT NULL, v STRING, w STRING, g BIGINT, p STRING NOT NULL) PARTITIONED BY "
              "(p) TBLPROPERTIES ('primary-key' = 'p,k', 'bucket' = '2', 'write-only' = 'true')")  # fmt: skip
    for low, step, p in ((0, 1, "a"), (0, 3, "a"), (1000, 1, "b"), (1100, 2, "b"), (500, 1, "b")):
        insert(spark, "many", low, step, p)
    spark.sql("DELETE FROM many WHERE k % 11 = 0 OR p = 'a' AND k < 100")
    jobs: list[str] = []

    def counted(*arguments: object) -> object:
        jobs.append(str(arguments[-1]))
        return in_tasks(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("paimon_spark.spark.jobs.compact_job.in_tasks", counted)
    monkeypatch.setattr("paimon_spark.spark.catalog.position_filter._MOST_MERGED_ROWS", 100)
    for query in QUERIES[:6]:
        frame = spark.sql(query.format(t="many"))
        ours = spark.sql(query.format(t="many WITH (`read.spark-parquet` = 'false')"))
        assert row_multiset(collected(frame)) == row_multiset(collected(ours)), query
    assert NATIVE in str(spark.table("many")._jdf.queryExecution().executedPlan().toString())
    assert 0 < len(jobs) <= 2  # what was found of files is kept
    assert set(jobs) == {"merge keys of db.many"}


@pytest.mark.thorough
def test_a_table_is_written_from_both_parts(spark: SparkSession, tables: dict[str, str]) -> None:
    spark.sql("CREATE TABLE copied AS SELECT * FROM partial")
    assert spark.table("copied").count() == spark.table("partial").count()
    before = spark.table("partial").where("k = 1950").select("v").first()
    spark.sql("MERGE INTO partial t USING partial s ON t.k = s.k AND t.p = s.p AND t.k = 1950 WHEN MATCHED THEN UPDATE "
              "SET v = concat(s.v, '!'), g = s.g + 1, w = s.w")  # fmt: skip
    after = spark.table("partial").where("k = 1950").select("v").first()
    assert before is not None
    assert after is not None
    assert after.v == before.v + "!"
