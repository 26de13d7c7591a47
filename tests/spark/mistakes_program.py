"""Makes mistakes that users make, and prints of each what they would see: `… <directory> [sc://…]`.

One line of JSON for each: its name, the class of the error, whether it is a PaimonError, its text, and how many lines
Python prints of it.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import PaimonTable

root = Path(sys.argv[1])


def session() -> Any:
    """Return a classic session, or one of the server that is named."""
    if len(sys.argv) > 2:
        return SparkSession.builder.remote(sys.argv[2]).getOrCreate()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    return builder.config("spark.log.level", "OFF").getOrCreate()


spark = session()
INNER = {"session", "source", "jvm", "hooks", "connect", "catalog"}
"""Folders of what stands between a user's call and the session."""
EARLY: dict[str, Callable[[], Any]] = {}
MISTAKES: dict[str, Callable[[], Any]] = {}


def mistake(function: Callable[[], Any]) -> Callable[[], Any]:
    """List a mistake."""
    MISTAKES[function.__name__] = function
    return function


def early(function: Callable[[], Any]) -> Callable[[], Any]:
    """List a mistake that is made before anything of this package is called."""
    EARLY[function.__name__] = function
    return function


def path(name: str = "k") -> str:
    """Return the directory of a table."""
    return f"{root}/wh/db.db/{name}"


def load(where: str, **options: str) -> Any:
    """Return a table's rows."""
    return spark.read.format("paimon").options(**options).load(where)


def save(frame: Any, where: str, mode: str = "append", **options: str) -> None:
    """Write rows."""
    frame.write.format("paimon").mode(mode).options(**options).save(where)


def rows(*values: tuple[Any, ...]) -> Any:
    """Return rows for the table."""
    return spark.createDataFrame(list(values), "id int, v string")


@mistake
def load_of_a_missing_table() -> None:
    load(path("none")).collect()


@mistake
def an_option_misspelt() -> None:
    load(path(), **{"scan.snapshotid": "1"}).collect()


@mistake
def a_tag_that_is_not_there() -> None:
    spark.sql("SELECT * FROM paimon.db.k VERSION AS OF 'none'").collect()


@mistake
def a_snapshot_that_is_not_there() -> None:
    load(path(), **{"scan.snapshot-id": "99"}).collect()


@mistake
def a_mode_that_needs_a_version() -> None:
    load(path(), **{"scan.timestamp": "2999-01-01 00:00:00", "scan.mode": "from-snapshot"}).collect()


@mistake
def a_null_key() -> None:
    save(rows((None, "x")), path())


@mistake
def a_null_key_by_method() -> None:
    PaimonTable.for_path(spark, path()).append(rows((None, "x")))


@mistake
def an_overflow() -> None:
    save(spark.createDataFrame([(2**40, "x")], "id bigint, v string"), path())


@mistake
def an_unknown_column() -> None:
    save(spark.createDataFrame([(1, "x")], "id int, w string"), path())


@mistake
def another_bucket_number() -> None:
    save(rows((1, "x")), path(), bucket="7")


@mistake
def a_procedure_with_an_unknown_tag() -> None:
    spark.sql("CALL paimon.sys.rollback(table => 'db.k', tag => 'none')").collect()


@mistake
def a_missing_data_file() -> None:
    load(path("gone")).collect()


@mistake
def a_damaged_snapshot() -> None:
    load(path("damaged")).collect()


@mistake
def a_folder_of_parquet() -> None:
    load(f"{root}/parquet").collect()


@mistake
def a_folder_of_delta() -> None:
    load(f"{root}/delta").collect()


@mistake
def a_folder_of_iceberg() -> None:
    load(f"{root}/iceberg").collect()


@mistake
def a_save_into_a_folder_of_files() -> None:
    save(rows((1, "x")), f"{root}/parquet")


@mistake
def a_save_into_a_database() -> None:
    save(rows((1, "x")), f"{root}/wh/db.db")


@mistake
def a_home_directory() -> None:
    save(rows((1, "x")), "~/paimon_spark_table")


@mistake
def a_stream_from_a_wrong_mode() -> None:
    stream = spark.readStream.format("paimon").option("scan.mode", "nonsense").load(path())
    stream.writeStream.format("noop").option("checkpointLocation", f"{root}/cp").start().awaitTermination(60)


@mistake
def a_path_of_databricks() -> None:
    load("dbfs:/wh/db.db/t").collect()


@mistake
def a_batch_from_a_starting_version() -> None:
    load(path(), startingVersion="1").collect()


@mistake
def arguments_in_the_wrong_order() -> None:
    PaimonTable.for_path(path(), spark)


@mistake
def arguments_of_register_catalog_in_the_wrong_order() -> None:
    paimon_spark.register_catalog("paimon", spark, warehouse=f"{root}/wh")


@mistake
def a_warehouse_as_the_name_of_a_catalog() -> None:
    paimon_spark.register_catalog(spark, f"{root}/wh", warehouse="paimon")


@mistake
def a_session_behind_the_statement() -> None:
    paimon_spark.sql("SELECT 1", spark)


@mistake
def a_table_of_spark_catalog() -> None:
    spark.sql("CREATE TABLE made_by_spark (id INT) USING paimon")


@mistake
def a_table_of_spark_catalog_by_method() -> None:
    spark.catalog.createTable("made_by_spark", source="paimon", schema=rows((1, "a")).schema)


@mistake
def a_null_key_by_statement() -> None:
    spark.sql("INSERT INTO paimon.db.k SELECT nullif(CAST(id AS INT), 5), 'x' FROM range(9)")


@mistake
def a_home_directory_of_open_table() -> None:
    paimon_spark.open_table("~/paimon_spark_table")


@mistake
def an_unknown_column_of_a_query() -> None:
    spark.sql("SELECT w, id FROM paimon.db.k").collect()


@mistake
def a_new_value_that_is_a_number() -> None:
    PaimonTable.for_path(spark, path()).update({"v": 5}, where="id = 1")  # type: ignore[dict-item]


@mistake
def a_condition_that_is_true() -> None:
    PaimonTable.for_path(spark, path()).delete(True)  # type: ignore[arg-type]


@mistake
def a_tag_that_is_a_number() -> None:
    PaimonTable.for_path(spark, path()).create_tag(5)  # type: ignore[arg-type]


@mistake
def a_warehouse_as_a_table() -> None:
    load(f"{root}/wh").collect()


@mistake
def a_database_as_a_table() -> None:
    load(f"{root}/wh/db.db").collect()


@mistake
def a_name_as_a_path() -> None:
    PaimonTable.for_path(spark, "paimon.db.k").count()


@mistake
def a_file_as_a_warehouse() -> None:
    paimon_spark.register_catalog(spark, "file", warehouse=__file__)


@mistake
def no_directory_as_a_warehouse() -> None:
    paimon_spark.register_catalog(spark, "none", warehouse=None)  # type: ignore[arg-type]


@mistake
def a_misspelt_procedure() -> None:
    spark.sql("CALL paimon.sys.compactt(table => 'db.k')")


@mistake
def a_procedure_of_no_catalog() -> None:
    spark.sql("CALL sys.compact(table => 'db.k')")


@mistake
def a_table_without_its_database() -> None:
    spark.sql("SELECT * FROM paimon.k").collect()


@mistake
def a_misspelt_catalog() -> None:
    spark.sql("SELECT * FROM piamon.db.k").collect()


@mistake
def a_list_as_an_option() -> None:
    save(rows((1, "x")), f"{root}/listed", **{"primary-key": str(["id"])})


@mistake
def fewer_snapshots_than_the_least() -> None:
    spark.sql("CREATE TABLE paimon.db.few (id INT) TBLPROPERTIES ('snapshot.num-retained.max' = '5')")


@mistake
def a_save_over_a_table() -> None:
    save(rows((1, "x")), path(), mode="error")


@mistake
def a_time_for_a_write() -> None:
    save(rows((1, "x")), path(), timestampAsOf="2024-01-01")


@mistake
def a_constraint_that_is_no_key() -> None:
    spark.sql("CREATE TABLE paimon.db.checked (id INT, CONSTRAINT c CHECK (id > 0))")


@mistake
def an_unknown_merge_engine() -> None:
    spark.sql("CREATE TABLE paimon.db.engine (id INT) TBLPROPERTIES ('merge-engine' = 'last-row')")


@mistake
def no_buckets() -> None:
    spark.sql("CREATE TABLE paimon.db.none (id INT) TBLPROPERTIES ('bucket' = '0')")


@mistake
def a_misspelt_system_table() -> None:
    load(f"{path()}$snapshot").collect()


@mistake
def a_tag_twice() -> None:
    table = PaimonTable.for_path(spark, path())
    table.create_tag("once")
    table.create_tag("once")


@mistake
def a_filter_with_an_unknown_column() -> None:
    load(path(), filter="idd = 1").collect()


@mistake
def a_delete_by_an_unknown_column() -> None:
    PaimonTable.for_path(spark, path()).delete("idd = 1")


@mistake
def an_update_with_its_arguments_exchanged() -> None:
    PaimonTable.for_path(spark, path()).update("id = 1", {"v": "'x'"})


@mistake
def a_key_column_dropped() -> None:
    spark.sql("ALTER TABLE paimon.db.k DROP COLUMN id")


@mistake
def another_merge_engine() -> None:
    spark.sql("ALTER TABLE paimon.db.k SET TBLPROPERTIES ('merge-engine' = 'aggregation')")


@mistake
def an_option_that_no_scan_without_spark_has() -> None:
    paimon_spark.open_table(path()).scan(scan_snapshotidd=1)


@mistake
def a_column_that_the_table_lacks_without_spark() -> None:
    paimon_spark.open_table(path()).append([{"id": 1, "w": "x"}])


@mistake
def a_missing_table_without_spark() -> None:
    paimon_spark.open_table(path("none"))


@early
def partition_by_before_register() -> None:
    rows((1, "x")).write.format("paimon").mode("append").partitionBy("v").save(f"{root}/unregistered")


@early
def load_of_a_missing_table_before_register() -> None:
    load(path("none")).collect()


@early
def an_option_misspelt_before_register() -> None:
    save(rows((1, "a")), f"{root}/early", **{"primary-key": "id", "bucket": "1"})
    load(f"{root}/early", **{"scan.snapshotid": "1"}).collect()


@early
def a_snapshot_that_is_not_there_before_register() -> None:
    load(f"{root}/early", **{"scan.snapshot-id": "99"}).collect()


@early
def a_null_key_before_register() -> None:
    save(rows((None, "x")), f"{root}/early")


@early
def another_bucket_number_before_register() -> None:
    save(rows((1, "x")), f"{root}/early", bucket="7")


@early
def a_table_by_name_before_register() -> None:
    rows((1, "x")).write.format("paimon").mode("append").saveAsTable("made")


@early
def a_stream_from_a_wrong_mode_before_register() -> None:
    _ = spark.readStream.format("paimon").option("scan.mode", "nonsense").load(f"{root}/early").schema


@early
def a_damaged_file_before_register() -> None:
    for file in Path(f"{root}/early").glob("bucket-0/*"):
        file.write_bytes(b"")
    load(f"{root}/early").collect()


@early
def no_warehouse() -> None:
    paimon_spark.sql(spark, "SELECT * FROM paimon.db.k").collect()


@mistake
def a_misspelt_argument_of_compact() -> None:
    PaimonTable.for_path(spark, path()).compact(order_bye="id")


@mistake
def a_time_that_is_none() -> None:
    PaimonTable.for_path(spark, path()).expire_snapshots(older_than="yesterday")


@mistake
def an_update_of_nothing() -> None:
    PaimonTable.for_path(spark, path()).update({}, where="id = 1")


@mistake
def a_warehouse_that_cannot_be_made() -> None:
    paimon_spark.register_catalog(spark, "none", warehouse="/dev/null/wh")


@mistake
def a_statement_that_is_none() -> None:
    paimon_spark.sql(spark, None)  # type: ignore[arg-type]


@mistake
def a_filter_that_is_no_sql() -> None:
    load(path(), filter="id === 1").collect()


@mistake
def a_column_renamed_that_is_not_there() -> None:
    PaimonTable.for_path(spark, path()).rename_column("w", "x")


@mistake
def a_merge_by_an_unknown_column() -> None:
    PaimonTable.for_path(spark, path()).merge(rows((1, "x")), "idd = 1").when_matched_delete().execute()


@mistake
def a_statement_about_an_unknown_column() -> None:
    paimon_spark.sql(spark, "UPDATE paimon.db.k SET w = 1", warehouse=f"{root}/wh", catalog="paimon")


@mistake
def an_overflow_without_spark() -> None:
    paimon_spark.open_table(path()).append(pa.table({"id": [1 << 40], "v": ["x"]}))


@mistake
def a_tag_that_is_not_there_without_spark() -> None:
    paimon_spark.open_table(path()).scan(version="none").to_arrow()


@mistake
def a_key_that_is_no_column() -> None:
    PaimonTable.create(spark, path("new"), "id int", primary_key="ident")


def prepare() -> None:
    """Make the tables that mistakes are about."""
    paimon_spark.register_catalog(spark, "paimon", warehouse=f"{root}/wh")
    spark.sql("CREATE DATABASE paimon.db")
    for name in ("k", "gone", "damaged"):
        options = "'primary-key' = 'id', 'bucket' = '1'"
        spark.sql(f"CREATE TABLE paimon.db.{name} (id INT, v STRING) TBLPROPERTIES ({options})")
        spark.sql(f"INSERT INTO paimon.db.{name} VALUES (1, 'a')")
    for file in Path(path("gone")).glob("bucket-0/*"):
        file.unlink()
    (Path(path("damaged")) / "snapshot" / "snapshot-1").write_text("{")
    (root / "parquet").mkdir()
    (root / "parquet" / "part-0.parquet").write_bytes(b"PAR1")
    (root / "delta" / "_delta_log").mkdir(parents=True)
    (root / "delta" / "_delta_log" / "00000000000000000000.json").write_text("{}")
    (root / "iceberg" / "metadata").mkdir(parents=True)
    (root / "iceberg" / "metadata" / "v1.metadata.json").write_text("{}")


def wrappers(error: BaseException) -> list[str]:
    """Return the steps of ours between PySpark's methods and Spark that IPython shows of an error."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][:-1]  # the last one is always shown
    steps = [frame for frame in frames if "__tracebackhide__" not in frame.f_locals]
    files = [(Path(frame.f_code.co_filename).parts, frame.f_code.co_name) for frame in steps]
    return [f"{at[-1]}: {name}" for at, name in files if "paimon_spark" in at[:-1] and set(at) & INNER]


def show(mistakes: dict[str, Callable[[], Any]]) -> None:
    """Make mistakes, and print what they show."""
    for name, function in mistakes.items():
        shown: dict[str, Any] = {"name": name, "kind": None}
        try:
            function()
        except Exception as error:  # noqa: BLE001 - of whatever class: it is shown
            printed = "".join(traceback.format_exception(error)).splitlines()
            text = str(error).partition("\n\nJVM stacktrace:")[0]  # Connect's own client appends it
            shown |= {
                "kind": type(error).__name__,
                "ours": isinstance(error, paimon_spark.PaimonError),
                "text": text[:600],
                "own_lines": sum(map(bool, map(str.strip, text.splitlines()))),
                "named": text.count(type(error).__name__),
                "lines": len(printed),
                "wrappers": wrappers(error),
                "jvm": "JVM stacktrace" in str(error),
            }
        print(json.dumps(shown), flush=True)


if __name__ == "__main__":
    show(EARLY)
    prepare()
    show(MISTAKES)
    spark.stop()
