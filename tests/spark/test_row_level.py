"""DELETE and UPDATE: the same by the catalog's SQL, by `paimon_spark.sql` and by `PaimonTable`."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit

import paimon_spark
from paimon_spark import PaimonError, PaimonTable, UnsupportedError
from paimon_spark.table.table import FileStoreTable, load_table

pytestmark = [pytest.mark.spark, pytest.mark.catalog("changes", current=True, by_text=True)]

Rows = list[tuple[object, ...]]
Run = Callable[..., Any]
_numbers = itertools.count()

REFUSED = (PySparkException, PaimonError)


@pytest.fixture(params=["catalog", "statement"])
def run(request: pytest.FixtureRequest, spark: SparkSession, warehouse: Path) -> Run:
    """Runs SQL by the catalog, or as a session without one does."""
    if request.param == "catalog":
        return lambda text, **more: spark.sql(text, **more).collect()
    return lambda text, **more: paimon_spark.sql(spark, text, **more).collect()


@pytest.fixture
def create(spark: SparkSession, warehouse: Path) -> Callable[..., str]:
    """Makes a table with rows and gives its name."""

    def create(columns: str, rows: str = "", by: str = "", key: str = "k", **options: str) -> str:
        name = f"t{next(_numbers)}"
        known = {"primary-key": key, "bucket": "1", **options} if key else options
        properties = ", ".join(f"'{option}'='{value}'" for option, value in known.items())
        parts = f"PARTITIONED BY ({by})" if by else ""
        spark.sql(f"CREATE TABLE {name} ({columns}) {parts} {f'TBLPROPERTIES ({properties})' if known else ''}")
        if rows:
            spark.sql(f"INSERT INTO {name} VALUES {rows}")
        return name

    return create


@pytest.fixture
def rows(spark: SparkSession) -> Callable[[str], Rows]:
    return lambda query: sorted(
        (tuple(row) for row in (spark.sql(query) if " " in query else spark.table(query)).collect()), key=repr
    )


def store(warehouse: Path, name: str) -> FileStoreTable:
    return load_table(str(warehouse / "db.db" / name))


def operations(warehouse: Path, name: str) -> list[tuple[str, str | None]]:
    """Kind and operation of each snapshot."""
    table = store(warehouse, name)
    found = [table.snapshots.get(snapshot_id) for snapshot_id in table.snapshots.ids()]
    return [(s.commit_kind.value, None if s.operation is None else s.operation.value) for s in found]  # type: ignore[union-attr]


KV = "k INT NOT NULL, v STRING, n INT"
ABC = "(1, 'a', 10), (2, 'b', 20), (3, NULL, 30)"


def test_rows_are_deleted_and_updated(run: Run, create: Callable[..., str], rows: Callable[[str], Rows]) -> None:
    name = create(KV, ABC)
    run(f"DELETE FROM {name} WHERE v = 'a'")
    assert rows(name) == [(2, "b", 20), (3, None, 30)]
    run(f"UPDATE {name} SET v = concat(coalesce(v, ''), 'x'), n = n + k WHERE n >= 20")
    assert rows(name) == [(2, "bx", 22), (3, "x", 33)]
    run(f"UPDATE changes.db.{name} AS old SET old.v = NULL, n = -old.n WHERE old.k <> 2")
    assert rows(name) == [(2, "bx", 22), (3, None, -33)]
    run(f"UPDATE {name} SET n = k")
    assert rows(name) == [(2, "bx", 2), (3, None, 3)]
    run(f"DELETE FROM {name} AS x WHERE x.v IS NULL")
    assert rows(name) == [(2, "bx", 2)]


@pytest.mark.thorough
def test_rows_that_are_written_are_those_of_java(
    run: Run, create: Callable[..., str], rows: Callable[[str], Rows], warehouse: Path
) -> None:
    name = create(KV, ABC)
    run(f"DELETE FROM {name} WHERE k = 1")
    run(f"UPDATE {name} SET v = 'z' WHERE k < 3")
    run(f"DELETE FROM {name} WHERE k = 77")
    run(f"UPDATE {name} SET v = 'z' WHERE k = 77")
    assert operations(warehouse, name) == [("APPEND", "WRITE"), ("APPEND", "DELETE"), ("APPEND", "UPDATE")]
    log = f"SELECT rowkind, k, v, n FROM `{name}$audit_log` WITH ('incremental-between' = "
    assert rows(f"{log}'1,2')") == [("-D", 1, "a", 10)]
    assert rows(f"{log}'2,3')") == [("+U", 2, "z", 20)]
    assert rows(f"SELECT * FROM {name} VERSION AS OF 1") == [(1, "a", 10), (2, "b", 20), (3, None, 30)]


@pytest.mark.parametrize("key", ["k", ""])
def test_long_lists_are_one_expression(
    spark: SparkSession, create: Callable[..., str], rows: Callable[[str], Rows], key: str
) -> None:
    name = create("k BIGINT NOT NULL, d DATE, c CHAR(6)", key=key)
    spark.sql(f"INSERT INTO {name} SELECT id, date_add(DATE'2020-01-01', CAST(id AS INT)), id FROM range(4000)")
    numbers = ", ".join(map(str, range(1500)))
    assert spark.sql(f"EXPLAIN DELETE FROM {name} WHERE k IN ({numbers})").collect()[0][0].count("CAST(") < 5
    spark.sql(f"DELETE FROM {name} WHERE k IN ({numbers})")
    days = ", ".join(f"DATE'2020-01-01' + {number}" for number in range(1400, 2600))
    spark.sql(f"UPDATE {name} SET c = 'new' WHERE d IN ({days}, NULL)")
    texts = ", ".join(f"'{number}'" for number in range(2600, 3800))  # shorter than the column, which is padded
    spark.sql(f"DELETE FROM {name} WHERE c IN ({texts}) OR k NOT IN ({numbers}, NULL)")
    assert rows(f"SELECT trim(c) = 'new', count(*), min(k), max(k) FROM {name} GROUP BY 1") == [
        (False, 200, 3800, 3999),
        (True, 1100, 1500, 2599),
    ]


def test_whole_partitions_are_not_read(
    run: Run, create: Callable[..., str], rows: Callable[[str], Rows], warehouse: Path
) -> None:
    values = "(1, 'a', '2024', 7), (2, 'b', '2024', 8), (3, 'c', '2025', 7), (4, 'd', NULL, 9), (5, 'e', '2026', 1)"
    name = create("k INT, v STRING, dt STRING, h INT", values, by="dt, h", key="")
    run(f"DELETE FROM {name} WHERE dt = '2024' AND h > 7 OR dt IS NULL")
    assert rows(f"SELECT k FROM {name}") == [(1,), (3,), (5,)]
    run(f"DELETE FROM {name} WHERE length(dt) = 5")
    run(f"DELETE FROM {name} WHERE substr(dt, 1, 4) = '2026'")
    run(f"DELETE FROM {name} t WHERE t.dt IN ('2025', 'x')")
    assert rows(f"SELECT k FROM {name}") == [(1,)]
    run(f"DELETE FROM {name}")
    assert rows(name) == []
    assert operations(warehouse, name)[1:] == 4 * [("OVERWRITE", "TRUNCATE")]


@pytest.mark.thorough
def test_partitions_of_every_type(run: Run, create: Callable[..., str], rows: Callable[[str], Rows]) -> None:
    columns = "k INT, d DATE, x DECIMAL(5, 2), c CHAR(4), b BOOLEAN, l BIGINT, w VARCHAR(5)"
    values = (
        "(1, DATE '2024-02-29', 1.50, 'ab', true, 5000000000, 'v'), (2, DATE '1969-01-01', -0.01, 'cd', false, 1, 'w'),"
        "(3, NULL, NULL, NULL, NULL, NULL, NULL)"
    )
    for condition in (
        "d = DATE '2024-02-29'",
        "x = 1.5",
        "c LIKE 'ab%'",
        "b",
        "l > 4000000000",
        "w = 'v'",
        "year(d) = 2024 AND l IS NOT NULL",
    ):
        name = create(columns, values, by="d, x, c, b, l, w", key="")
        run(f"DELETE FROM {name} WHERE {condition}")
        assert rows(f"SELECT k FROM {name}") == [(2,), (3,)], condition


def test_delete_that_makes_a_changelog_writes_rows(run: Run, create: Callable[..., str], warehouse: Path) -> None:
    options = {"delete.force-produce-changelog": "true"}
    name = create("k INT NOT NULL, dt STRING NOT NULL", "(1, 'a'), (2, 'b')", by="dt", key="k,dt", **options)
    run(f"DELETE FROM {name} WHERE dt = 'a'")
    assert operations(warehouse, name)[1:] == [("APPEND", "DELETE")]


@pytest.mark.thorough
def test_subqueries_and_parameters(run: Run, create: Callable[..., str], rows: Callable[[str], Rows]) -> None:
    name, other = create(KV, ABC), create("k INT NOT NULL, w STRING", "(1, 'one'), (9, 'nine')")
    run(f"UPDATE {name} SET n = (SELECT max(n) FROM {name}), v = :v WHERE k = :k", args={"k": 3, "v": "it's {x}"})
    assert rows(name) == [(1, "a", 10), (2, "b", 20), (3, "it's {x}", 30)]
    run(f"UPDATE {name} SET v = (SELECT w FROM {other} o WHERE o.k = {name}.k) WHERE k IN (SELECT k FROM {other})")
    assert rows(name)[0] == (1, "one", 10)
    run(f"DELETE FROM {name} WHERE NOT EXISTS (SELECT 1 FROM {other} o WHERE o.k = {name}.k) AND n > ?", args=[25])
    assert rows(name) == [(1, "one", 10), (2, "b", 20)]
    run(f"WITH big AS (SELECT max(k) AS k FROM {name}) DELETE FROM {name} WHERE k IN (SELECT k FROM big)")
    assert rows(name) == [(1, "one", 10)]


@pytest.mark.thorough
def test_fields_of_structs(run: Run, create: Callable[..., str], rows: Callable[[str], Rows]) -> None:
    columns = "k INT NOT NULL, s STRUCT<x: INT, y: STRUCT<z: STRING, w: DOUBLE>>"
    values = "(1, named_struct('x', 1, 'y', named_struct('z', 'a', 'w', 0.5))), (2, NULL)"
    name = create(columns, values)
    run(f"UPDATE {name} SET s.y.z = upper(s.y.z), s.x = s.x + 1 WHERE s.x = 1")
    run(f"UPDATE {name} SET s.x = 5 WHERE k = 2")
    assert rows(name) == [(1, (2, ("A", 0.5))), (2, (5, None))]
    with pytest.raises(REFUSED):
        run(f"UPDATE {name} SET s.x = 1, s = NULL")


ODD_COLUMNS = "`k.x` INT NOT NULL, `a.b` INT, `a``b` STRING, s STRUCT<`y.z`: INT, w: INT>"
ODD_ROWS = "(1, 1, 'x', struct(1, 2)), (2, 2, 'y', struct(3, 4)), (3, 3, 'z', struct(5, 6))"


@pytest.mark.parametrize("key", ["k.x", ""])
def test_columns_with_dots_and_back_quotes(
    run: Run, create: Callable[..., str], rows: Callable[[str], Rows], key: str
) -> None:
    name = create(ODD_COLUMNS, ODD_ROWS, key=key)
    run(f"UPDATE {name} SET `a.b` = `a.b` + 10, `a``b` = concat(`a``b`, '!'), s.`y.z` = 9 WHERE `k.x` = 1")
    run(f"DELETE FROM {name} WHERE `a``b` = 'y' AND `a.b` = 2")
    assert rows(name) == [(1, 11, "x!", (9, 2)), (3, 3, "z", (5, 6))]


@pytest.mark.thorough
@pytest.mark.parametrize("key", ["k.x", ""])
def test_methods_take_columns_with_dots_and_back_quotes(
    spark: SparkSession, create: Callable[..., str], key: str, warehouse: Path
) -> None:
    name = create(ODD_COLUMNS, ODD_ROWS, key=key)
    table = PaimonTable.for_path(spark, str(warehouse / "db.db" / name))
    table.append(spark.sql("SELECT 4 AS `k.x`, 4 AS `a.b`, 'u' AS `a``b`, struct(7 AS `y.z`, 8 AS w) AS s"))
    table.update({"a.b": "`a.b` + 10", "`a``b`": "concat(`a``b`, '!')", "s.`y.z`": "9"}, where="`k.x` = 1")
    table.delete("`a``b` = 'y' AND `a.b` = 2")
    found = table.to_df(columns=["a.b", "a`b", "s"], filter="`k.x` <> 3").collect()
    assert sorted(tuple(row) for row in found) == [(4, "u", (7, 8)), (11, "x!", (9, 2))]


@pytest.mark.thorough
def test_values_are_stored_as_an_insert_stores_them(
    run: Run, create: Callable[..., str], rows: Callable[[str], Rows], warehouse: Path
) -> None:
    name = create(
        "k INT NOT NULL, v STRING DEFAULT 'none', n INT NOT NULL, l BIGINT, d DATE",
        "(1, 'a', 1, 1, DATE '2024-01-01')",
    )
    run(f"UPDATE {name} SET v = 7, n = 8L, l = n, d = TIMESTAMP '2024-05-06 07:08:09'")
    assert rows(f"SELECT v, n, l, CAST(d AS STRING) FROM {name}") == [("7", 8, 1, "2024-05-06")]
    run(f"UPDATE {name} SET v = DEFAULT")
    assert rows(f"SELECT v FROM {name}") == [("none",)]
    for refused in ("n = 'text'", "n = NULL", "n = 5000000000", "missing = 1", "v = missing", "v = 'a', V = 'b'"):
        with pytest.raises(REFUSED):
            run(f"UPDATE {name} SET {refused}")
    assert len(operations(warehouse, name)) == 3


def test_what_is_refused_by_name(run: Run, create: Callable[..., str], warehouse: Path) -> None:
    keyed = create("k INT NOT NULL, v STRING, dt STRING NOT NULL", "(1, 'a', 'x')", by="dt", key="k,dt")
    partial = create(KV, ABC, **{"merge-engine": "partial-update"})
    run(f"INSERT INTO {partial} VALUES (1, 'b', NULL)")
    by_field = create(KV, "(1, '+I', 1)", **{"rowkind.field": "v"})
    tables = (keyed, partial, by_field)
    before = {name: sorted((warehouse / "db.db" / name).rglob("*")) for name in tables}
    for statement, reason in {
        f"UPDATE {keyed} SET k = 5 WHERE v = 'a'": "primary key column. k is",
        f"UPDATE {keyed} SET dt = 'y', v = 'b'": "primary key column. dt is",
        f"DELETE FROM {partial} WHERE k = 1": "partial-update.remove-record-on-delete",
        f"DELETE FROM {by_field} WHERE k = 1": "rowkind.field",
        f"DELETE FROM `{keyed}$snapshots`": "system table",
        f"UPDATE `{keyed}$files` SET level = 1": "system table",
        f"DELETE FROM {keyed} WHERE rand() < 0.5": "deterministic|NON_DETERMINISTIC",
        f"DELETE FROM {keyed} WHERE missing = 1": "missing",
        "DELETE FROM changes.db.nothing": "TABLE_OR_VIEW_NOT_FOUND",
        "UPDATE changes.db.nothing SET a = 1": "TABLE_OR_VIEW_NOT_FOUND",
    }.items():
        with pytest.raises(REFUSED, match=reason):
            run(statement)
    assert {name: sorted((warehouse / "db.db" / name).rglob("*")) for name in tables} == before, "nothing is written"


def test_partial_update(run: Run, create: Callable[..., str], rows: Callable[[str], Rows]) -> None:
    options = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    name = create(KV, "(1, 'a', NULL), (2, 'b', 2)", **options)
    run(f"UPDATE {name} SET n = 5 WHERE k = 1")
    run(f"UPDATE {name} SET v = NULL WHERE k = 2")  # as in Java: a null says nothing
    assert rows(name) == [(1, "a", 5), (2, "b", 2)]
    run(f"DELETE FROM {name} WHERE n = 5")
    run(f"INSERT INTO {name} VALUES (1, NULL, 6)")
    assert rows(name) == [(1, "a", 6), (2, "b", 2)]  # as in Java: what comes later fills in the row that was deleted


def test_paths_and_branches(
    spark: SparkSession, run: Run, create: Callable[..., str], rows: Callable[[str], Rows], warehouse: Path
) -> None:
    name = create(KV, ABC)
    PaimonTable.for_path(spark, str(warehouse / "db.db" / name)).create_branch("b", snapshot_id=1)
    run(f"DELETE FROM `{name}$branch_b` WHERE k = 1")
    run(f"UPDATE changes.`{warehouse}/db.db/{name}` SET v = 'path' WHERE k = 2")
    assert rows(f"SELECT k, v FROM `{name}$branch_b`") == [(2, "b"), (3, None)]
    assert rows(f"SELECT k, v FROM {name}") == [(1, "a"), (2, "path"), (3, None)]
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('scan.fallback-branch' = 'b')")
    with pytest.raises(REFUSED, match="second branch"):
        run(f"DELETE FROM {name} WHERE k = 2")


@pytest.mark.thorough
@pytest.mark.parametrize("padded", ["ab", "ab   "])
def test_char_keys_are_those_of_the_file(
    spark: SparkSession, create: Callable[..., str], rows: Callable[[str], Rows], warehouse: Path, padded: str
) -> None:
    name = create("c CHAR(5) NOT NULL, w VARCHAR(3), n INT", key="c")
    plain = PaimonTable.for_path(spark, str(warehouse / "db.db" / name))
    plain.append(spark.createDataFrame([(padded, "x", 1), ("cd", "y", 2), ("ef", "z", 3)], "c string, w string, n int"))
    spark.sql(f"UPDATE {name} SET n = n + 10, w = 'ab' WHERE c = 'ab'")
    assert rows(f"SELECT trim(c), w, n FROM {name}") == [("ab", "ab", 11), ("cd", "y", 2), ("ef", "z", 3)]
    spark.sql(f"DELETE FROM {name} WHERE c = 'ab' OR w LIKE 'y%'")
    assert rows(f"SELECT trim(c), w, n FROM {name}") == [("ef", "z", 3)]
    with pytest.raises(PySparkException, match="EXCEED_LIMIT_LENGTH"):
        spark.sql(f"UPDATE {name} SET w = 'long'")
    spark.sql(f"DELETE FROM {name} WHERE c IN (SELECT c FROM {name})")
    assert rows(name) == []


@pytest.mark.thorough
def test_char_partitions_are_compared_padded(
    spark: SparkSession, create: Callable[..., str], rows: Callable[[str], Rows], warehouse: Path
) -> None:
    name = create("k INT, c CHAR(4)", "(1, 'ab'), (2, 'cd')", by="c", key="")
    plain = PaimonTable.for_path(spark, str(warehouse / "db.db" / name))
    plain.append(spark.createDataFrame([(3, "ab")], "k int, c string"))
    spark.sql(f"DELETE FROM {name} WHERE c = 'ab'")
    assert rows(f"SELECT k FROM {name}") == [(2,)]


def test_methods(spark: SparkSession, create: Callable[..., str], warehouse: Path) -> None:
    name = create("k INT NOT NULL, v STRING, dt STRING NOT NULL", "(1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')",
                  by="dt", key="k,dt")  # fmt: skip
    table = PaimonTable.for_path(spark, str(warehouse / "db.db" / name))

    def now() -> Rows:
        return sorted((row.k, row.v, row.dt) for row in table.to_df().collect())

    table.update({"v": "concat(v, k)"}, "k > 1")
    table.update({"V": lit("one")}, col("k") == 1)
    assert now() == [(1, "one", "x"), (2, "b2", "x"), (3, "c3", "y")]
    table.delete("dt = 'y'")
    assert operations(warehouse, name)[-1] == ("OVERWRITE", "TRUNCATE")
    table.delete((col("dt") == "x") & (col("v") == "b2"))
    assert now() == [(1, "one", "x")]
    with pytest.raises(UnsupportedError, match="primary key"):
        table.update({"k": "1"})
    with pytest.raises(UnsupportedError, match="deterministic"):
        table.delete("rand() < 0.5")
    with pytest.raises(PaimonError, match="no column missing"):
        table.update({"missing": "1"})
    table.delete()
    assert now() == []


def test_caches_are_renewed_and_explain_changes_nothing(
    spark: SparkSession, create: Callable[..., str], rows: Callable[[str], Rows]
) -> None:
    name = create(KV, ABC)
    spark.sql(f"CACHE TABLE {name}")
    assert len(rows(name)) == 3
    plan = spark.sql(f"EXPLAIN DELETE FROM {name} WHERE k = 1").first()
    assert plan is not None
    assert f"DELETE FROM db.{name} WHERE" in plan[0]
    assert len(rows(name)) == 3
    spark.sql(f"DELETE FROM {name} WHERE k = 1")
    assert len(rows(name)) == 2
    spark.sql(f"UNCACHE TABLE {name}")


def test_session_options_reach_the_write(spark: SparkSession, create: Callable[..., str], warehouse: Path) -> None:
    name = create(KV, ABC)
    spark.conf.set("spark.paimon.file.format", "orc")
    spark.conf.set("spark.paimon.scan.snapshot-id", "1")
    try:
        spark.sql(f"UPDATE {name} SET v = 'x' WHERE k = 1")
        spark.sql(f"UPDATE {name} SET v = concat(v, 'y') WHERE v = 'x'")
    finally:
        spark.conf.unset("spark.paimon.file.format")
        spark.conf.unset("spark.paimon.scan.snapshot-id")
    assert [row.v for row in spark.table(name).where("k = 1").collect()] == ["xy"]
    assert len(list((warehouse / "db.db" / name).rglob("*.orc"))) == 2


@pytest.mark.thorough
def test_a_script_can(spark: SparkSession, create: Callable[..., str], rows: Callable[[str], Rows]) -> None:
    name = create(KV, ABC)
    spark.sql(f"BEGIN DELETE FROM {name} WHERE k = 1; UPDATE {name} SET v = 'script' WHERE k = 2; END")
    assert rows(f"SELECT k, v FROM {name}") == [(2, "script"), (3, None)]


def test_a_new_session_can(spark: SparkSession, create: Callable[..., str], rows: Callable[[str], Rows]) -> None:
    name = create(KV, ABC)
    session = spark.newSession()
    session.sql(f"DELETE FROM changes.db.{name} WHERE k = 1")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    paimon_spark.register(spark)  # makes it the thread's active session again
    assert len(rows(name)) == 2


@pytest.mark.parametrize("options", [{"key": "k"}, {"key": ""}, {"key": "", "deletion-vectors.enabled": "true"}])
def test_a_statement_says_how_many_rows_it_changed(
    run: Run, create: Callable[..., str], options: dict[str, str]
) -> None:
    name = create("k INT, v STRING", "(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')", **options)
    assert [row.asDict() for row in run(f"UPDATE {name} SET v = 'x' WHERE k < 3")] == [{"num_affected_rows": 2}]
    assert [row.asDict() for row in run(f"DELETE FROM {name} WHERE k = 3")] == [{"num_affected_rows": 1}]
    assert [row.asDict() for row in run(f"DELETE FROM {name} WHERE k = 33")] == [{"num_affected_rows": 0}]
    source = "(SELECT 1 AS k, 'm' AS v UNION ALL SELECT 9, 'n') s"
    done = run(
        f"MERGE INTO {name} t USING {source} ON t.k = s.k WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    )
    assert [tuple(row) for row in done] == [(2, 0, 1, 1)]


def test_the_ui_names_each_job_of_a_change(spark: SparkSession, create: Callable[..., str]) -> None:
    table = create("k INT, v STRING", key="")
    spark.sql(f"INSERT INTO {table} SELECT id, 'x' FROM range(150000)")
    context = spark.sparkContext._jsc.sc()  # type: ignore[union-attr]

    def jobs() -> Iterator[Any]:
        """The newest first, of those that the store has not forgotten."""
        context.listenerBus().waitUntilEmpty()
        found = context.statusStore().jobsList(None)
        return (found.apply(at) for at in range(found.size()))

    def names(statement: str) -> set[str]:
        last = next(jobs()).jobId()
        spark.sql(statement)
        new = itertools.takewhile(lambda job: job.jobId() > last, jobs())
        return {job.description().getOrElse(None) for job in new}

    found = f"db.{table}, find files"
    assert names(f"UPDATE {table} SET v = 'y' WHERE k % 2 = 0") == {
        f"paimon: update {found}",
        f"paimon: update db.{table}",
    }
    source = "(SELECT id, 'm' v FROM range(1000, 200000))"
    merge = f"MERGE INTO {table} USING {source} s ON k = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
    assert names(merge) == {f"paimon: merge db.{table}"}
    assert names(f"DELETE FROM {table} WHERE k % 3 = 0") == {f"paimon: delete {found}", f"paimon: delete db.{table}"}


def test_the_ui_names_the_query_of_a_statement(spark: SparkSession, create: Callable[..., str]) -> None:
    table = create("k INT, v STRING", "(1, 'a'), (2, 'b'), (3, 'c')")
    context = spark.sparkContext
    store = spark._jsparkSession.sharedState().statusStore()  # type: ignore[attr-defined]

    def newest() -> int:
        context._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[union-attr]
        return max((one.executionId() for one in listed()), default=-1)

    def listed() -> list[Any]:
        found = store.executionsList(max(0, store.executionsCount() - 20), 20)
        return [found.apply(at) for at in range(found.size())]

    def name(statement: str) -> str:
        last = newest()
        spark.sql(statement)
        assert newest() > last
        return str(next(one.description() for one in listed() if one.executionId() == last + 1))

    def is_unnamed() -> bool:
        return context.getLocalProperty("spark.job.description") is None

    where = f"(changes.db.{table}.k = 2)"
    assert name(f"UPDATE {table} SET v = 'y' WHERE k = 2") == f"UPDATE db.{table} WHERE {where}"
    assert name(f"DELETE FROM {table} WHERE k = 2") == f"DELETE FROM db.{table} WHERE {where}"
    source = "(SELECT 3 AS k, 'm' AS v) s"
    merge = f"MERGE INTO {table} t USING {source} ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v"
    assert name(merge) == f"MERGE INTO db.{table} ON (t.k = s.k) WHEN MATCHED THEN UPDATE"
    many = ", ".join(map(str, range(100, 200)))
    cut = name(f"DELETE FROM {table} WHERE k IN ({many})")
    assert cut.startswith(f"DELETE FROM db.{table} WHERE ")
    assert cut.endswith("...")
    assert is_unnamed()
    spark.sql(f"EXPLAIN UPDATE {table} SET v = 'y'")
    assert is_unnamed()
    with pytest.raises(REFUSED):
        spark.sql(f"UPDATE {table} SET v = CAST(raise_error('no') AS STRING)")
    assert is_unnamed()
    context.setJobDescription("mine")
    try:
        assert name(f"UPDATE {table} SET v = 'z' WHERE k = 1") == "mine"
        assert context.getLocalProperty("spark.job.description") == "mine"
    finally:
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
