"""What users of other formats type first: it works, or one sentence names the words that work here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from paimon_spark import (
    OptionError,
    PaimonTable,
    SchemaError,
    SchemaMismatchError,
    SnapshotNotFoundError,
    UnsupportedError,
    register,
    register_catalog,
    sql,
)
from paimon_spark.spark.sql.foreign_statements import parse_foreign_statement
from paimon_spark.table.table import load_table

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A catalog `words` with the table d.t: two keys, the first one written twice."""
    path = str(tmp_path_factory.mktemp("words"))
    register_catalog(spark, "words", warehouse=path)
    spark.sql("CREATE DATABASE words.d")
    spark.sql("CREATE TABLE words.d.t (id INT, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    spark.sql("INSERT INTO words.d.t VALUES (1, 'a'), (2, 'b')")
    spark.sql("INSERT INTO words.d.t VALUES (1, 'aa')")
    yield path
    spark.sql("USE spark_catalog.default")


_COMPACT = r"CALL words\.sys\.compact\(table => 'words\.d\.t'\)"
SENTENCES = {
    "DESCRIBE HISTORY words.d.t": r"SELECT \* FROM words\.d\.`t\$snapshots`",
    "DESC HISTORY words.d.t": r"SELECT \* FROM words\.d\.`t\$snapshots`",
    "DESCRIBE DETAIL words.d.t": r"DESCRIBE TABLE EXTENDED words\.d\.t",
    "VACUUM words.d.t RETAIN 168 HOURS": r"CALL words\.sys\.expire_snapshots\(table => 'words\.d\.t'\)",
    "OPTIMIZE words.d.t ZORDER BY (id)": _COMPACT,
    "REORG TABLE words.d.t APPLY (PURGE)": _COMPACT,
    "RESTORE TABLE words.d.t TO VERSION AS OF 1": r"CALL words\.sys\.rollback\(table => 'words\.d\.t'",
    "SHOW BRANCHES words.d.t": r"words\.d\.`t\$branches`",
    "COPY INTO words.d.t FROM '/data/in' FILEFORMAT = CSV": r"INSERT INTO words\.d\.t SELECT \* FROM csv",
    "COPY INTO '/data/out' FROM words.d.t FILEFORMAT = CSV": "INSERT OVERWRITE DIRECTORY",
    "COPY INTO '/data/out' FROM (SELECT v FROM words.d.t) FILEFORMAT = JSON": "INSERT OVERWRITE DIRECTORY",
    "CREATE TABLE words.d.l LIKE words.d.t STORED AS PARQUET": "file.format|STORED is not supported",
    "ALTER TABLE words.d.t CREATE BRANCH b": r"CALL words\.sys\.create_branch",
    "ALTER TABLE words.d.t ADD PARTITION FIELD v": "PARTITIONED BY",
    "ALTER TABLE words.d.t RENAME TO nodb.x": "SCHEMA_NOT_FOUND.*`nodb`",
}


@pytest.mark.parametrize("entry_point", ["catalog", "paimon_spark.sql"])
@pytest.mark.parametrize("statement", SENTENCES)
def test_statements_of_other_formats_name_the_words_that_work(
    spark: SparkSession, warehouse: str, statement: str, entry_point: str
) -> None:
    run = spark.sql if entry_point == "catalog" else lambda text: sql(spark, text, catalog="words", warehouse=warehouse)
    with pytest.raises((PySparkException, NotImplementedError), match="(?s)" + SENTENCES[statement]) as caught:
        run(statement)
    text = str(caught.value)
    assert len(text.splitlines()) <= 3, "no page of Java"
    assert not re.search(r"`unknown`|Traceback|\tat ", text)


def test_statements_about_tables_of_spark_are_left_to_spark(spark: SparkSession, warehouse: str) -> None:
    spark.range(1).createOrReplaceTempView("history")
    try:
        for entry_point in (spark.sql, lambda text: sql(spark, text)):
            assert entry_point("DESCRIBE history id").collect()[0][1] == "id"
            with pytest.raises(PySparkException, match="PARSE_SYNTAX_ERROR"):
                entry_point("VACUUM spark_catalog.default.x")
    finally:
        spark.catalog.dropTempView("history")
    assert spark.sql("DESCRIBE words.d.t v").collect()[0][1] == "v"


def test_a_foreign_statement_needs_its_table() -> None:
    assert parse_foreign_statement("VACUUM") is None
    assert parse_foreign_statement("SELECT 1") is None
    assert parse_foreign_statement("ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')") is None
    statement = parse_foreign_statement("optimize `a b`.t -- now")
    assert statement is not None
    assert "compact(table => 'a b.t')" in str(statement.answer("c"))


def test_procedures_are_shown_without_their_namespace_and_with_their_parameters(
    spark: SparkSession, warehouse: str
) -> None:
    if spark.version < "4.1":
        pytest.skip("Spark 4.0 has no SHOW PROCEDURES")
    names = [[row.procedure_name for row in spark.sql("SHOW PROCEDURES IN words.sys").collect()]]
    spark.sql("USE words.d")
    try:
        names.append([row.procedure_name for row in spark.sql("SHOW PROCEDURES").collect()])
        described = " ".join(row[0] for row in spark.sql("DESCRIBE PROCEDURE sys.create_tag").collect())
    finally:
        spark.sql("USE spark_catalog.default")
    assert names[0] == names[1]
    assert "create_tag" in names[0]
    assert not any(name.startswith("__") for name in names[0])
    assert "create_tag(table STRING, tag STRING[, snapshot BIGINT, time_retained STRING])" in described


def test_describe_extended_does_not_count_rows_that_merging_takes_away(spark: SparkSession, warehouse: str) -> None:
    def statistics() -> str:
        rows = spark.sql("DESCRIBE TABLE EXTENDED words.d.t").collect()
        return next((row.data_type for row in rows if row.col_name == "Statistics"), "")

    assert "rows" not in statistics()
    spark.sql("CALL words.sys.compact(table => 'd.t')")
    assert statistics().endswith(", 2 rows")


def test_a_tag_that_is_not_there_is_deleted_without_an_error(spark: SparkSession, warehouse: str) -> None:
    spark.sql("ALTER TABLE words.d.t DELETE TAG nope")
    spark.sql("CALL words.sys.delete_tag(table => 'd.t', tag => 'nope')")
    table = PaimonTable.for_path(spark, f"{warehouse}/d.db/t")
    table.delete_tag("nope")
    with pytest.raises(Exception, match="Tag 'nope' doesn't exist"):
        table.delete_tag("nope", ignore_if_missing=False)


def test_partition_by_reaches_the_table(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = spark.createDataFrame([(1, "a", 7)], "id int, dt string, h int")
    rows.write.format("paimon").partitionBy("dt", "h").mode("append").save(path)
    rows.write.save(path, format="paimon", mode="append", partitionBy=["dt", "h"])
    assert load_table(path).schema.partition_keys == ("dt", "h")
    assert spark.read.format("paimon").load(path).count() == 2
    with pytest.raises(PySparkException, match=r"Cannot change partition to 'id'.*partition columns: dt, h"):
        rows.write.format("paimon").partitionBy("id").mode("append").save(path)
    with pytest.raises(OptionError, match="clusterBy has no meaning"):
        rows.write.format("paimon").clusterBy("id").mode("append").save(path)
    rows.write.format("parquet").partitionBy("dt").save(str(tmp_path / "files"))
    assert (tmp_path / "files" / "dt=a").is_dir()


@pytest.mark.thorough
def test_options_of_other_formats(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.createDataFrame([(1,)], "id int").write.format("paimon").mode("append").save(path)
    wider = spark.createDataFrame([(2, "x")], "id int, v string")
    wider.write.format("paimon").option("mergeSchema", "true").mode("append").save(path)
    read = spark.read.format("paimon")
    assert [tuple(row) for row in read.option("versionAsOf", "1").load(path).collect()] == [(1,)]
    assert spark.read.format("paimon").option("timestampAsOf", "2100-01-01").load(path).count() == 2
    with pytest.raises(SnapshotNotFoundError, match="no snapshot earlier"):
        spark.read.format("paimon").option("timestampAsOf", "2001-02-03 04:05:06").load(path).collect()
    with pytest.raises(OptionError, match="both say which version"):
        read.option("versionAsOf", "1").option("timestampAsOf", "2100-01-01").load(path)
    assert spark.read.format("paimon").load(path).columns == ["id", "v"]
    for option, words in {
        "readChangeFeed": "'incremental-between' = ",
        "startingVersion": "'incremental-between' = ",
        "snapshot-id": "'scan.snapshot-id' = ",
    }.items():
        with pytest.raises(OptionError, match=f"Unknown option '{option.lower()}': .*{words}"):
            spark.read.format("paimon").option(option, "1").load(path)
    for option in ("catalog", "database", "table"):  # of the official connector
        with pytest.raises(OptionError, match=rf"Unknown option '{option}': .*spark\.read\.table\("):
            spark.read.format("paimon").option(option, "x").load(path)
        with pytest.raises(PySparkException, match=rf"Unknown option '{option}': .*saveAsTable\("):
            wider.write.format("paimon").option(option, "x").mode("append").save(path)
    with pytest.raises(PySparkException, match="CREATE OR REPLACE TABLE"):
        wider.write.format("paimon").option("overwriteSchema", "true").mode("overwrite").save(path)


def test_a_table_of_spark_catalog_says_what_to_use(spark: SparkSession, tmp_path: Path) -> None:
    words = r".*spark_catalog.*register_catalog.*TEMPORARY VIEW"
    with pytest.raises(UnsupportedError, match=words):
        spark.sql(f"CREATE TABLE elsewhere (id INT) USING paimon LOCATION '{tmp_path / 't'}'")
    assert not spark.catalog.tableExists("elsewhere")
    with pytest.raises(OptionError, match=words):  # as Spark reads a table that another session has made
        spark.read.format("paimon").load().collect()


def test_rows_that_are_no_dataframe_of_spark(spark: SparkSession, warehouse: str, tmp_path: Path) -> None:
    import pyarrow as pa

    table = PaimonTable.for_path(spark, f"{warehouse}/d.db/t")
    with pytest.raises(SchemaMismatchError, match=r"append takes a DataFrame of Spark, not a pyarrow Table: "):
        table.append(pa.table({"id": [1]}))  # type: ignore[arg-type]
    with pytest.raises(SchemaMismatchError, match="overwrite takes a DataFrame of Spark, not a list"):
        table.overwrite([(1, "a")])  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match=r"give df\.schema"):
        PaimonTable.create(spark, str(tmp_path / "t"), spark.range(1))  # type: ignore[arg-type]


def test_registering_again_replaces_nothing(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("Spark warns: The data source paimon replaced a previously registered data source")

    monkeypatch.setattr(type(spark.dataSource), "register", refuse)
    register(spark)
