"""ALTER TABLE through the SQL catalog: every change, the refusals with Java's words, sessions that alter at once."""

import getpass
import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.table.table import load_table

pytestmark = [pytest.mark.spark, pytest.mark.catalog("alters", current=True)]

_numbers = itertools.count()


@pytest.fixture
def name(warehouse: Path) -> str:
    """A name that no table has yet."""
    return f"t{next(_numbers)}"


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_every_change(spark: SparkSession, warehouse: Path, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (k INT, v STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='1')")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a')")
    for change in (
        "ADD COLUMN n STRUCT<a: INT, b: STRING> COMMENT 'nested' AFTER k",
        "ADD COLUMN n.c ARRAY<STRUCT<x: INT>> FIRST",
        "ADD COLUMN n.c.element.y INT",
        "RENAME COLUMN n.a TO aa",
        "ALTER COLUMN n.aa TYPE BIGINT",
        "DROP COLUMN n.b",
        "RENAME COLUMN k TO id",
        "ADD COLUMNS (x INT, y INT)",
        "ALTER COLUMN x SET DEFAULT 7",
        "ALTER COLUMN x TYPE BIGINT",
        "ALTER COLUMN y FIRST",
        "ALTER COLUMN v COMMENT 'text'",
        "SET TBLPROPERTIES ('comment'='hi', 'Snapshot.Num-Retained.Min'='3')",
    ):
        spark.sql(f"ALTER TABLE {name} {change}")
    spark.sql(f"INSERT INTO {name} (id, v) VALUES (2, 'b')")
    assert [tuple(row)[:3] for row in spark.sql(f"DESCRIBE {name}").collect()] == [
        ("y", "int", None),
        ("id", "int", None),
        ("n", "struct<c:array<struct<x:int,y:int>>,aa:bigint>", "nested"),
        ("v", "string", "text"),
        ("x", "bigint", None),
    ]
    assert rows(spark.sql(f"SELECT id, v, x FROM {name}")) == [(1, "a", None), (2, "b", 7)]
    properties = dict(rows(spark.sql(f"SHOW TBLPROPERTIES {name}")))
    assert (properties["primary-key"], properties["snapshot.num-retained.min"]) == ("id", "3")
    spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('snapshot.num-retained.min')")
    assert load_table(str(warehouse / "db.db" / name)).schema.options == {"bucket": "1", "owner": getpass.getuser()}
    assert load_table(str(warehouse / "db.db" / name)).schema.comment == "hi"
    spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('comment')")
    assert load_table(str(warehouse / "db.db" / name)).schema.comment is None


def test_nested_fields_of_rows_that_are_there(spark: SparkSession, name: str) -> None:
    spark.sql(
        f"CREATE TABLE {name} (k INT, s STRUCT<a: INT, b: STRUCT<c: INT, d: STRING>>, l ARRAY<STRUCT<a: INT>>, "
        "m MAP<STRING, STRUCT<a: INT>>, p ARRAY<INT>, q MAP<INT, INT>)"
    )
    spark.sql(
        f"INSERT INTO {name} SELECT 1, struct(1, struct(2, 'x')), array(struct(3)), map('k', struct(4)), array(5), "
        "map(6, 7)"
    )
    for change in (
        "ADD COLUMNS (s.e STRING COMMENT 'new' AFTER a, s.b.f DOUBLE FIRST)",
        "ADD COLUMN l.element.z INT",
        "ADD COLUMN m.value.z INT FIRST",
        "RENAME COLUMN l.element.a TO aa",
        "RENAME COLUMN m.value.a TO aa",
        "ALTER COLUMN s.b.c TYPE BIGINT",
        "ALTER COLUMN p.element TYPE BIGINT",
        "ALTER COLUMN q.value TYPE BIGINT",
        "DROP COLUMNS (s.b.d)",
        "ALTER COLUMN s.e FIRST",
        "ALTER COLUMN s.b.c COMMENT 'deep'",
    ):
        spark.sql(f"ALTER TABLE {name} {change}")
    assert [row[1] for row in spark.sql(f"DESCRIBE {name}").collect()] == [
        "int",
        "struct<e:string,a:int,b:struct<f:double,c:bigint>>",
        "array<struct<aa:int,z:int>>",
        "map<string,struct<z:int,aa:int>>",
        "array<bigint>",
        "map<int,bigint>",
    ]
    assert spark.sql(f"SELECT to_json(struct(*), map('ignoreNullFields', 'false')) FROM {name}").head()[0] == (
        '{"k":1,"s":{"e":null,"a":1,"b":{"f":null,"c":2}},"l":[{"aa":3,"z":null}],"m":{"k":{"z":null,"aa":4}},'
        '"p":[5],"q":{"6":7}}'
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DROP COLUMN k", "Cannot drop partition key or primary key"),
        ("DROP COLUMN dt", "Cannot drop partition key or primary key"),
        ("DROP COLUMN nope", "nope"),
        ("DROP COLUMN s.nope", "nope"),
        ("DROP COLUMN s.a", "Cannot drop all fields in table"),
        ("RENAME COLUMN dt TO day", "Cannot rename partition column"),
        ("RENAME COLUMN v TO w", "w"),
        ("ALTER COLUMN k TYPE BIGINT", "Cannot update primary key"),
        ("ALTER COLUMN d TYPE BIGINT", "Cannot update partition column"),
        ("ALTER COLUMN v TYPE ARRAY<INT>", "v"),
        ("ALTER COLUMN s.a TYPE DATE", "a"),
        ("ALTER COLUMN k DROP NOT NULL", "Cannot change nullability of primary key"),
        ("ALTER COLUMN v SET NOT NULL", "v"),
        ("ALTER COLUMN w SET DEFAULT 'x'", "w"),
        ("ALTER COLUMN w SET DEFAULT rand()", "w"),
        ("ALTER COLUMN s.a SET DEFAULT 3", "Only columns of the table can have a default|default"),
        ("ALTER COLUMN v AFTER v", "v"),
        ("ALTER COLUMN k FIRST", "Cannot move itself for column k"),
        ("ADD COLUMN n INT NOT NULL", "cannot specify NOT NULL"),
        ("ADD COLUMN s.n INT NOT NULL", "cannot specify NOT NULL"),
        ("ADD COLUMN n INT DEFAULT 3", "with default value"),
        ("ADD COLUMN v INT", "v"),
        ("ADD COLUMN s.a INT", "a"),
        ("ADD COLUMN n INT AFTER nope", "No such struct field"),
        ("ADD COLUMN n INTERVAL DAY TO SECOND", "n"),
        ("ADD COLUMN _KEY_n INT", "_KEY_"),
        ("REPLACE COLUMNS (a INT)", "REPLACE COLUMNS is not supported"),
        ("SET TBLPROPERTIES ('primary-key'='v')", "Alter primary key is not supported"),
        ("UNSET TBLPROPERTIES ('primary-key')", "Alter primary key is not supported"),
        ("SET TBLPROPERTIES ('partition'='v')", "Change 'partition' is not supported yet"),
        ("SET TBLPROPERTIES ('merge-engine'='first-row')", "Change 'merge-engine' is not supported yet"),
        ("SET TBLPROPERTIES ('bucket-key'='k')", "Change 'bucket-key' is not supported yet"),
        ("UNSET TBLPROPERTIES ('bucket')", "Cannot reset bucket"),
        ("UNSET TBLPROPERTIES ('merge-engine')", "Change 'merge-engine' is not supported yet"),
        ("SET TBLPROPERTIES ('bucket'='-1')", "Cannot change bucket to -1"),
        ("SET TBLPROPERTIES ('type'='format-table')", "Change 'type' is not supported yet"),
        ("SET TBLPROPERTIES ('deletion-vectors.enabled'='true')", "Cannot change deletion vectors mode"),
        ("SET TBLPROPERTIES ('sequence.field'='nope')", "nope"),
        ("SET TBLPROPERTIES ('path'='/tmp/x')", "Change path is not supported yet"),
        ("SET LOCATION '/tmp/x'", "Change path is not supported yet"),
        ("PARTITION (dt='x', d=1) SET LOCATION '/tmp/x'", "partition"),
        ("PARTITION (dt='x', d=1) RENAME TO PARTITION (dt='y', d=1)", "cannot be renamed"),
        ("RECOVER PARTITIONS", "RECOVER PARTITIONS"),
        ("ADD PARTITION (dt='x', d=1)", "PARTITIONS_ALREADY_EXIST"),
        ("ADD PARTITION (dt='z', d=1) LOCATION '/tmp/x'", "have their directories in that of the table"),
        ("SET SERDE 'x'", "SERDE"),
    ],
)
def test_refused_changes(spark: SparkSession, warehouse: Path, change: str, words: str) -> None:
    spark.sql(
        "CREATE TABLE IF NOT EXISTS refused (k INT, v STRING, w INT, s STRUCT<a: INT>, dt STRING, d INT) "
        "PARTITIONED BY (dt, d) TBLPROPERTIES ('primary-key'='dt,d,k', 'bucket'='1')"
    )
    table = load_table(str(warehouse / "db.db" / "refused"))
    if table.snapshots.latest_id() is None:
        spark.sql("INSERT INTO refused VALUES (1, 'a', 1, struct(1), 'x', 1)")
    with pytest.raises(PySparkException, match=words):
        spark.sql(f"ALTER TABLE refused {change}")
    assert (table.schemas.ids(), table.snapshots.latest_id()) == ([0], 1)


def test_options_may_change_before_there_is_data(spark: SparkSession, warehouse: Path, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (k INT, v INT) TBLPROPERTIES ('primary-key'='k', 'bucket'='2')")
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('merge-engine'='partial-update', 'bucket'='3')")
    options = load_table(str(warehouse / "db.db" / name)).schema.options
    assert options == {"bucket": "3", "merge-engine": "partial-update", "owner": getpass.getuser()}


def test_alters_at_once(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (a INT)")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: spark.sql(f"ALTER TABLE alters.db.{name} ADD COLUMN c{n} INT"), range(4)))
    assert set(spark.table(name).columns) == {"a", "c0", "c1", "c2", "c3"}


def test_two_sessions_that_contradict_each_other(spark: SparkSession, name: str) -> None:
    """The second one meets the schema of the first, whatever it was planned on."""
    spark.sql(f"CREATE TABLE {name} (a INT, b INT)")
    sessions = [spark.newSession(), spark.newSession()]
    changes = ["ADD COLUMN c INT", "ADD COLUMN c STRING"]

    def alter(number: int) -> str:
        try:
            sessions[number].sql(f"ALTER TABLE alters.db.{name} {changes[number]}")
        except PySparkException as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(2) as pool:
        errors = sorted(pool.map(alter, range(2)))
    assert errors[0] == ""
    assert "already exists" in errors[1]
    assert spark.table(name).columns == ["a", "b", "c"]
