"""CALL and Paimon's own statements about tags; going back to an earlier state; the same as methods of PaimonTable."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException, UnsupportedOperationException
from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import expr

import paimon_spark
from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import OptionError, PaimonError, SnapshotNotFoundError
from paimon_spark.spark.statements.cursor import split_name
from paimon_spark.spark.statements.table_statements import TagStatement, parse_tag_statement
from tests.support.commits import data_file, make_table, message

pytestmark = pytest.mark.spark


def fresh(spark: SparkSession) -> SparkSession:
    """A session that has nothing of ours; ``spark.newSession()`` would hand on the catalogs of other tests."""
    return SparkSession(spark.sparkContext, spark._jsparkSession.newSession())


@pytest.fixture(scope="module")
def sql(spark: SparkSession, warehouse: Path) -> Iterator[SparkSession]:
    """A session of its own with the catalog ``tg``, where it is current, and another one ``tg2``."""
    session = fresh(spark)
    paimon_spark.register_catalog(session, "tg", warehouse=str(warehouse))
    paimon_spark.register_catalog(session, "tg2", warehouse=str(warehouse / "second"))
    session.sql("CREATE DATABASE tg.db")
    session.sql("USE tg.db")
    yield session
    paimon_spark.register(spark)
    spark.range(1).collect()  # the session of the other tests is the active one again


@pytest.fixture
def table(sql: SparkSession, warehouse: Path, request: pytest.FixtureRequest) -> str:
    """A table with the snapshots 1 to 3, which add the keys 1 to 3."""
    name = f"t{abs(hash(request.node.name))}"
    made = make_table(warehouse / "db.db" / name, primary_key=["k"], bucket="1")
    for key in (1, 2, 3):
        commit(made, [message(made, data_file(made, {key: f"v{key}"}, sequence=key))])
    return name


def tags_of(sql: SparkSession, table: str) -> list[tuple[str, int, str | None]]:
    rows = sql.sql(f"SELECT tag_name, snapshot_id, time_retained FROM `{table}$tags` ORDER BY tag_name").collect()
    return [tuple(row) for row in rows]


def test_tag_procedures(sql: SparkSession, table: str) -> None:
    assert sql.sql(f"CALL sys.create_tag(table => 'db.{table}', tag => 'a')").collect() == [Row(result=True)]
    sql.sql(f"CALL tg.sys.create_tag('tg.db.{table}', 'b', 1, '2 d')")
    sql.sql("CALL sys.create_tag(table => :t, tag => :g, snapshot => 2)", args={"t": table, "g": "c"})
    assert tags_of(sql, table) == [("a", 3, None), ("b", 1, "PT48H"), ("c", 2, None)]
    sql.sql(f"CALL sys.replace_tag(table => '{table}', tag => 'a', snapshot => 2, time_retained => '3 h')")
    sql.sql(f"CALL sys.rename_tag(table => '{table}', tag => 'b', target_tag => 'x, y')")
    sql.sql(f"CALL sys.delete_tag(table => '{table}', tag => 'c, missing')")
    assert tags_of(sql, table) == [("a", 2, "PT3H"), ("x, y", 1, "PT48H")]
    row = sql.sql(f"CALL sys.create_tag_from_timestamp(table => '{table}', tag => 'z', timestamp => 0)").collect()[0]
    assert (row.tagName, row.snapshot, row.watermark) == ("z", 1, "null")
    assert sql.sql(f"CALL sys.expire_tags(table => '{table}')").collect() == [Row(expired_tags="No expired tags.")]
    expired = sql.sql(f"CALL sys.expire_tags('{table}', '2999-12-31 00:00:00')").collect()
    assert sorted(row.expired_tags for row in expired) == ["a", "x, y", "z"]


def test_procedures_about_watermarks_and_automatic_tags(sql: SparkSession, table: str) -> None:
    sql.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('tag.automatic-creation' = 'process-time')")
    assert sql.sql(f"CALL sys.trigger_tag_automatic_creation(table => '{table}')").collect() == [Row(result=True)]
    [(name, snapshot_id, _)] = tags_of(sql, table)
    assert (len(name), snapshot_id) == (10, 1)
    batch = "'tag.automatic-creation' = 'batch', 'tag.batch.customized-name' = 'b'"
    sql.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({batch})")
    sql.sql(f"INSERT INTO {table} VALUES (9, 'z')")
    assert ("b", 4, None) in tags_of(sql, table)
    with pytest.raises(IllegalArgumentException, match="watermark is later than 5"):
        sql.sql(f"CALL sys.create_tag_from_watermark(table => '{table}', tag => 'w', watermark => 5)")


def test_rollback_as_latest(sql: SparkSession, table: str) -> None:
    again = sql.sql(f"CALL sys.rollback_to_as_latest(table => '{table}', snapshot_id => 1)").collect()
    assert again == [Row(previous_snapshot_id=3, rolled_back_snapshot_id=1, current_snapshot_id=4)]
    assert [row.k for row in sql.sql(f"SELECT k FROM {table}").collect()] == [1]
    assert sql.sql(f"SELECT count(*) AS n FROM `{table}$snapshots`").collect() == [Row(n=4)]


def test_rollback_procedures(sql: SparkSession, table: str) -> None:
    sql.sql(f"CALL sys.create_tag(table => '{table}', tag => 'one', snapshot => 1)")
    time = sql.sql(f"SELECT commit_time FROM `{table}$snapshots` WHERE snapshot_id = 2").first()[0]
    with pytest.raises(IllegalArgumentException, match="only can set one of version/snapshot/tag"):
        sql.sql(f"CALL sys.rollback(table => '{table}', snapshot => 2, tag => 'one')")
    with pytest.raises(IllegalArgumentException, match="snapshot '77' doesn't exist"):
        sql.sql(f"CALL sys.rollback(table => '{table}', snapshot => 77)")
    with pytest.raises(IllegalArgumentException, match="earlier than 5"):
        sql.sql(f"CALL sys.rollback_to_watermark(table => '{table}', watermark => 5)")
    millis = int(time.timestamp() * 1000)
    done = sql.sql(f"CALL sys.rollback_to_timestamp(table => '{table}', timestamp => {millis})").collect()
    assert done == [Row(previous_snapshot_id=3, current_snapshot_id=2)]
    assert sql.table(table).count() == 2
    assert sql.sql(f"CALL sys.rollback('{table}', 'one')").collect() == [Row(2, 1)]
    assert [row.k for row in sql.table(table).collect()] == [1]


def test_tag_statements(sql: SparkSession, table: str) -> None:
    assert sql.sql(f"ALTER TABLE {table} CREATE TAG `2024-10-12`").collect() == []
    sql.sql(f"alter table db.{table} create tag if not exists `2024-10-12` as of version 1")
    sql.sql(f"ALTER TABLE tg.db.`{table}` CREATE TAG b AS OF VERSION 2 RETAIN 3 HOURS -- of two")
    sql.sql(f"ALTER TABLE {table} CREATE OR REPLACE TAG it's".replace("it's", '`it\'s "c"`'))
    sql.sql(f"ALTER TABLE {table} CREATE OR REPLACE TAG b AS OF VERSION 1 RETAIN 2 DAYS;")
    assert tags_of(sql, table) == [("2024-10-12", 3, None), ("b", 1, "PT48H"), ('it\'s "c"', 3, None)]
    shown = sql.sql(f"SHOW TAGS {table}")
    assert (shown.columns, [row.tag for row in shown.collect()]) == (["tag"], ["2024-10-12", "b", 'it\'s "c"'])
    sql.sql(f"ALTER TABLE {table} REPLACE TAG b RETAIN 30 MINUTES")
    sql.sql(f"ALTER TABLE {table} RENAME TAG b TO d")
    sql.sql(f"ALTER TABLE {table} DELETE TAG IF EXISTS b")
    assert tags_of(sql, table)[1] == ("d", 3, "PT30M")
    with pytest.raises(IllegalArgumentException, match="Tag 'd' already exists"):
        sql.sql(f"ALTER TABLE {table} CREATE TAG d")
    sql.sql(f"ALTER TABLE {table} DELETE TAG b")  # as the official connector, without IF EXISTS too
    sql.sql(f"ALTER TABLE {table} DELETE TAG `2024-10-12, d`")
    assert [row.tag for row in sql.sql(f"SHOW TAGS {table}").collect()] == ['it\'s "c"']
    sql.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    try:
        sql.sql(f'ALTER TABLE {table} DELETE TAG `it\'s "c"`')
    finally:
        sql.conf.unset("spark.sql.parser.escapedStringLiterals")
    assert sql.sql(f"SHOW TAGS {table}").collect() == []


@pytest.mark.parametrize(
    "text",
    [
        "selct 1",
        "SHOW TAGS",
        "ALTER TABLE {t} CREATE TAG",
        "ALTER TABLE {t} CREATE TAG x RETAIN 2 WEEKS",
        "ALTER TABLE {t} CREATE TAG x AS OF VERSION 'y'",
        "ALTER TABLE {t} RENAME TAG x",
        "ALTER TABLE {t} CREATE TAG x y",
        "SHOW TAGS spark_catalog.default.{t}",
        "SHOW TAGS {t} /* no end",
    ],
)
def test_other_syntax_errors_stay_what_they_are(sql: SparkSession, spark: SparkSession, table: str, text: str) -> None:
    statement = text.format(t=table)
    with pytest.raises(ParseException) as with_hook:
        sql.sql(statement)
    with pytest.raises(ParseException) as plain:
        fresh(spark).sql(statement)
    assert str(with_hook.value) == str(plain.value)


def test_statements_of_a_catalog_that_is_not_current(sql: SparkSession, table: str) -> None:
    sql.sql("USE tg2")
    try:
        sql.sql(f"ALTER TABLE tg.db.{table} CREATE TAG far")
        assert sql.sql(f"SHOW TAGS tg.db.{table}").collect() == [Row(tag="far")]
        with pytest.raises(IllegalArgumentException, match=f"'tg.db.{table}' in catalog tg2"):
            sql.sql(f"CALL sys.create_tag(table => 'tg.db.{table}', tag => 'x')")
    finally:
        sql.sql("USE tg.db")


@pytest.mark.parametrize(
    "call",
    [
        "create_tag(table => '{name}', tag => 'x')",
        "compact_manifest(table => '{name}')",
        "copy(source_table => '{name}', target_table => 'db.other')",
        "alter_view_dialect(view => '{name}', action => 'add', engine => 'spark', query => 'SELECT 1')",
    ],
)
def test_procedures_name_the_catalog_whose_table_they_are_given(sql: SparkSession, table: str, call: str) -> None:
    """One sentence, and no exception of py4j."""
    for name, words in ((f"tg.db.{table}", "tg is another catalog"), ("nowhere.db.t", "'nowhere.db.t' in catalog tg2")):
        with pytest.raises(IllegalArgumentException, match=words) as caught:
            sql.sql(f"CALL tg2.sys.{call.format(name=name)}").collect()
        assert "\n" not in str(caught.value)


def test_tables_by_path_and_system_tables(sql: SparkSession, table: str, warehouse: Path) -> None:
    path = warehouse / "db.db" / table
    sql.sql(f"CALL sys.create_tag(table => '{path}', tag => 'p')")
    assert sql.sql(f"SHOW TAGS tg.`{path}`").collect() == [Row(tag="p")]
    with pytest.raises(UnsupportedOperationException, match="snapshots"):
        sql.sql(f"CALL sys.create_tag(table => 'db.{table}$snapshots', tag => 'p')")


@pytest.mark.thorough
def test_mistakes_in_calls(sql: SparkSession, table: str) -> None:
    with pytest.raises(UnsupportedOperationException, match=r"no procedure sys.nope.*create_tag, .*rollback"):
        sql.sql(f"CALL sys.nope(table => '{table}')")
    with pytest.raises(UnsupportedOperationException, match=r"no procedure db.create_tag"):
        sql.sql(f"CALL tg.db.create_tag(table => '{table}')")
    with pytest.raises(AnalysisException, match="REQUIRED_PARAMETER_NOT_FOUND"):
        sql.sql("CALL sys.create_tag(tag => 'a')")
    with pytest.raises(AnalysisException, match="UNRECOGNIZED_PARAMETER_NAME"):
        sql.sql(f"CALL sys.create_tag(table => '{table}', tag => 'a', when => 1)")
    with pytest.raises(IllegalArgumentException, match=r"nope.*no schema file"):
        sql.sql("CALL sys.create_tag(table => 'db.nope', tag => 'a')")
    with pytest.raises(IllegalArgumentException, match="Time unit 'years'"):
        sql.sql(f"CALL sys.create_tag(table => '{table}', tag => 'a', time_retained => '2 years')")
    with pytest.raises(IllegalArgumentException, match="older_than 'soon'"):
        sql.sql(f"CALL sys.expire_tags(table => '{table}', older_than => 'soon')")


def test_sessions_know_the_statements_where_they_were_registered(spark: SparkSession, warehouse: Path) -> None:
    plain, hooked = fresh(spark), fresh(spark)
    paimon_spark.register_catalog(plain, "tg", warehouse=str(warehouse), parser=False)
    for _ in range(2):
        paimon_spark.register_catalog(hooked, "tg", warehouse=str(warehouse))
    hooked.sql("CREATE DATABASE tg.sessions")
    hooked.sql("CREATE TABLE tg.sessions.t AS SELECT 1 AS k")
    plain.sql("CALL tg.sys.create_tag(table => 'sessions.t', tag => 'a')")
    assert hooked.sql("SHOW TAGS tg.sessions.t").collect() == [Row(tag="a")]
    with pytest.raises(ParseException):
        plain.sql("SHOW TAGS tg.sessions.t")
    assert hooked.newSession().sql("SHOW TAGS tg.sessions.t").collect() == [Row(tag="a")]
    assert (
        SparkSession(spark.sparkContext, hooked._jsparkSession.cloneSession()).sql("SHOW TAGS tg.sessions.t").count()
        == 1
    )
    parser = hooked._jsparkSession.sessionState().sqlParser().getClass().getName()
    assert (parser, plain._jsparkSession.sessionState().sqlParser().getClass().getSimpleName()) == (
        "PaimonStatementParser",
        "SparkSqlParser",
    )


def test_threads_make_tags_and_parse_other_things(sql: SparkSession, table: str) -> None:
    barrier = threading.Barrier(4)

    def work(number: int) -> int:
        barrier.wait(30)
        for step in range(3):
            sql.sql(f"ALTER TABLE tg.db.{table} CREATE TAG n{number}_{step}")
            with pytest.raises(ParseException):
                sql.sql("selct 1")
        return sql.range(3).select(expr("id + 1").alias("n")).where("n > 1").count()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, range(4))) == [2] * 4
    assert len(tags_of(sql, table)) == 12


def test_paimon_table_methods(sql: SparkSession, table: str, warehouse: Path) -> None:
    t = paimon_spark.PaimonTable.for_path(sql, str(warehouse / "db.db" / table))
    t.create_tag("a")
    t.create_tag("b", snapshot_id=1, time_retained=timedelta(hours=2))
    t.create_tag("a", snapshot_id=1, ignore_if_exists=True)
    t.replace_tag("b", snapshot_id=2)
    t.rename_tag("b", "c")
    assert t.create_tag_from_timestamp("first", datetime(2000, 1, 1)) == 1
    assert tags_of(sql, table) == [("a", 3, None), ("c", 2, None), ("first", 1, None)]
    with pytest.raises(SnapshotNotFoundError, match="'b' doesn't exist"):
        t.delete_tag("b", ignore_if_missing=False)
    t.delete_tag("b", ignore_if_missing=True)
    with pytest.raises(PaimonError, match="already exists"):
        t.create_tag("a")
    with pytest.raises(OptionError, match="exactly one"):
        t.rollback_to(snapshot_id=1, tag="c")
    assert t.rollback_to(time=datetime.now()) == 3
    assert t.rollback_to(tag="c") == 2
    assert t.to_df().count() == 2
    assert t.rollback_to(snapshot_id=1) == 1
    with pytest.raises(SnapshotNotFoundError, match="watermark"):
        t.rollback_to(watermark=1)
    assert t.expire_tags() == []
    assert t.expire_tags(older_than=datetime.now().astimezone() + timedelta(minutes=1)) == ["first"]


def test_words_of_statements() -> None:
    text = "alter /* x */ TABLE `a.b`.`c``d` create tag\n`e f` as of version 12 retain 3 days; -- done"
    assert parse_tag_statement(text) == TagStatement(
        "CREATE", ("a.b", "c`d"), "e f", snapshot_id=12, time_retained=timedelta(days=3)
    )
    assert parse_tag_statement("SHOW TAGS `t") is None
    assert parse_tag_statement("ALTER TABLE t CREATE TAG x RETAIN 99999999999999999 DAYS") is None
    assert parse_tag_statement("x " * 100_000) is None
    names = ("t", "db.t", "`a.b`.t", "c.`d``x`.t$branch_b", "/x/y.z", "c.`/x/y`")
    assert [split_name(name) for name in names] == [
        ("t",),
        ("db", "t"),
        ("a.b", "t"),
        ("c", "d`x", "t$branch_b"),
        ("/x/y.z",),
        ("c", "/x/y"),
    ]
