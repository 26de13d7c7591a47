"""CALL on branches, branches read and written by name, and the same as methods of PaimonTable."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

import paimon_spark
from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import PaimonError, SchemaError
from paimon_spark.maintain.refs import branches
from paimon_spark.table.schema_change import RemoveOption, SetOption
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import load_table
from tests.support.commits import data_file, make_table, message

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def sql(spark: SparkSession, warehouse: Path) -> Iterator[SparkSession]:
    """A session of its own with the catalog ``br``, where it is current."""
    session = SparkSession(spark.sparkContext, spark._jsparkSession.newSession())
    paimon_spark.register_catalog(session, "br", warehouse=str(warehouse))
    session.sql("CREATE DATABASE br.db")
    session.sql("USE br.db")
    yield session
    paimon_spark.register(spark)
    spark.range(1).collect()  # the session of the other tests is the active one again


@pytest.fixture
def table(sql: SparkSession, warehouse: Path, request: pytest.FixtureRequest) -> str:
    """An append table with the snapshots 1 and 2, which add the keys 1 and 2; snapshot 1 is tagged one."""
    name = f"t{abs(hash(request.node.name))}"
    made = make_table(warehouse / "db.db" / name, bucket="-1")
    for key in (1, 2):
        commit(made, [message(made, data_file(made, {key: f"v{key}"}))])
    sql.sql(f"CALL sys.create_tag(table => '{name}', tag => 'one', snapshot => 1)")
    return name


def keys(sql: SparkSession, table: str) -> list[int]:
    return sorted(row.k for row in sql.sql(f"SELECT k FROM `{table}`").collect())


def test_branch_procedures(sql: SparkSession, table: str) -> None:
    done = [Row(result=True)]
    assert sql.sql(f"CALL sys.create_branch(table => 'db.{table}', branch => 'b', tag => 'one')").collect() == done
    assert sql.sql(f"CALL sys.create_branch('{table}', 'b', 'one', 'true')").collect() == done
    sql.sql(f"INSERT INTO `{table}$branch_b` VALUES (7, 'x')")
    sql.sql(f"CALL sys.create_tag(table => 'db.{table}$branch_b', tag => 'seven')")
    assert keys(sql, f"{table}$branch_b") == [1, 7]
    assert sql.sql(f"CALL sys.merge_branch(table => '{table}', source_branch => 'b')").collect() == done
    assert keys(sql, table) == [1, 2, 7]
    sql.sql(f"CALL sys.rollback(table => '{table}$branch_b', snapshot => 1)")
    assert keys(sql, f"{table}$branch_b") == [1]
    assert sql.sql(f"CALL sys.rename_branch('{table}', 'b', 'c')").collect() == done
    assert sql.sql(f"CALL sys.fast_forward(table => '{table}', branch => 'c')").collect() == done
    assert keys(sql, table) == [1]
    assert sql.sql(f"SELECT branch_name FROM `{table}$branches`").collect() == [Row(branch_name="c")]
    with pytest.raises(PySparkException, match="cannot be pure numeric"):
        sql.sql(f"CALL sys.create_branch(table => '{table}', branch => '12')")
    with pytest.raises(PySparkException, match="'x' doesn't exist"):
        sql.sql(f"CALL sys.delete_branch(table => '{table}', branch => 'c,x')")
    assert sql.sql(f"CALL sys.delete_branch(table => '{table}', branch => 'c')").collect() == done
    assert sql.sql(f"SELECT * FROM `{table}$branches`").collect() == []


def test_branches_of_a_paimon_table(spark: SparkSession, warehouse: Path, table: str) -> None:
    path = str(warehouse / "db.db" / table)
    main = paimon_spark.PaimonTable.for_path(spark, path)
    main.create_branch("b", tag="one")
    main.create_branch("b", ignore_if_exists=True)
    branch = paimon_spark.PaimonTable.for_path(spark, f"{path}$branch_b")
    branch.append(spark.createDataFrame([(7, "x")], "k int, v string"))
    branch.create_tag("seven")
    assert sorted(row.k for row in branch.to_df().collect()) == [1, 7]
    assert [row.k for row in branch.to_df(scan_snapshot_id=1).collect()] == [1]
    assert main.merge_branch("b") == 3
    assert sorted(row.k for row in main.to_df().collect()) == [1, 2, 7]
    main.rename_branch("b", "c")
    assert main.fast_forward("c") == 2
    assert sorted(row.k for row in main.to_df(scan_tag_name="seven").collect()) == [1, 7]
    main.create_branch("d")
    main.delete_branch(["c", "d"])
    assert main.branches().collect() == []
    with pytest.raises(PaimonError, match="'c' doesn't exist"):
        main.delete_branch("c")


def test_partitions_of_both_branches_are_shown_and_only_own_ones_dropped(sql: SparkSession, warehouse: Path) -> None:
    made = make_table(warehouse / "db.db" / "two", primary_key=["dt", "k"], partition=["dt"], bucket="1")
    branches.create_branch(made, "b")
    for branch, partition in (("main", "1"), ("b", "1"), ("b", "2")):
        there = load_table(made.path, branch=branch)
        commit(there, [message(there, data_file(there, {1: branch}, partition=partition), partition=partition)])
    sql.sql("ALTER TABLE two SET TBLPROPERTIES ('scan.fallback-branch' = 'b')")
    shown = [("dt=1",), ("dt=2",)]

    def plain(statement: str) -> list[tuple[str]]:
        frame = paimon_spark.sql(sql, statement, warehouse=str(warehouse), catalog="br", database="db")
        return sorted((row[0],) for row in frame.collect())

    for run in (lambda text: sorted(tuple(row) for row in sql.sql(text).collect()), plain):
        assert run("SHOW PARTITIONS two") == shown
        assert run("SHOW PARTITIONS two PARTITION (dt = '2')") == shown[1:]
        with pytest.raises(PySparkException, match="PARTITIONS_NOT_FOUND"):
            run("ALTER TABLE two DROP PARTITION (dt = '2')")
    listed = sql.sql("SELECT partition_name FROM sys.partitions WHERE table_name = 'two' ORDER BY 1").collect()
    assert [tuple(row) for row in listed] == shown
    sql.sql("ALTER TABLE two DROP PARTITION (dt = '1')")
    assert [row.v for row in sql.sql("SELECT v FROM two").collect()] == ["b", "b"]


def test_no_table_keeps_the_option_branch(sql: SparkSession, warehouse: Path) -> None:
    """Java would then read and write that branch by the table's name, and this package the main one."""
    path = str(warehouse / "db.db" / "kept")
    branches.create_branch(make_table(path), "b")

    def plain(statement: str) -> DataFrame:
        return paimon_spark.sql(sql, statement, warehouse=str(warehouse), catalog="br", database="db")

    main, side = load_table(path), load_table(path, branch="b")
    entry_points: tuple[Callable[[], object], ...] = (
        lambda: sql.sql("ALTER TABLE kept SET TBLPROPERTIES ('branch' = 'b')"),
        lambda: plain("ALTER TABLE kept SET TBLPROPERTIES ('branch' = 'b')"),
        lambda: alter_table(main, [SetOption("branch", "b")]),
        lambda: alter_table(side, [SetOption("branch", "main")]),
        lambda: sql.sql("CREATE TABLE kept_too (k INT) TBLPROPERTIES ('branch' = 'b')"),
        lambda: plain("CREATE TABLE kept_too (k INT) TBLPROPERTIES ('branch' = 'b')"),
    )
    for entry_point in entry_points:
        with pytest.raises((PySparkException, PaimonError), match=r"'branch' = '(b|main)' is not kept in a table"):
            entry_point()
    assert not (warehouse / "db.db" / "kept_too").exists()
    assert "branch" not in load_table(path).schema.options
    alter_table(side, [SetOption("branch", "b")])  # its own name says nothing new
    sql.sql("ALTER TABLE kept SET TBLPROPERTIES ('branch' = 'main')")


def test_a_stored_option_branch_is_what_the_name_of_the_table_means(sql: SparkSession, warehouse: Path) -> None:
    """As in Java, whose ALTER TABLE stores it."""
    path = str(warehouse / "db.db" / "redirected")
    main = make_table(path, bucket="-1")
    branches.create_branch(main, "b")
    side = load_table(path, branch="b")
    commit(main, [message(main, data_file(main, {1: "main"}))])
    commit(side, [message(side, data_file(side, {2: "side"}))])
    main.schemas.commit_next(
        lambda latest: replace(latest, id=latest.id + 1, options={**latest.options, "branch": "b"})
    )

    def plain(statement: str) -> DataFrame:
        return paimon_spark.sql(sql, statement, warehouse=str(warehouse), catalog="text", database="db")

    def by_entry_points(name: str) -> list[list[int]]:
        frames = (
            sql.table(f"`{name}`"),
            plain(f"SELECT * FROM text.db.`{name}`"),
            sql.read.format("paimon").load(str(warehouse / "db.db" / name)),
            paimon_spark.PaimonTable.for_path(sql, str(warehouse / "db.db" / name)).to_df(),
        )
        return [sorted(row.k for row in frame.collect()) for frame in frames]

    assert by_entry_points("redirected") == [[2]] * 4
    assert by_entry_points("redirected$branch_b") == [[2]] * 4
    assert by_entry_points("redirected$branch_main") == [[1]] * 4
    sql.sql("INSERT INTO redirected VALUES (3, 'x')")
    plain("INSERT INTO text.db.redirected VALUES (4, 'x')")
    sql.createDataFrame([(5, "x")], "k int, v string").write.format("paimon").mode("append").save(path)
    sql.sql("DELETE FROM redirected WHERE k = 2")
    sql.sql("INSERT INTO `redirected$branch_main` VALUES (9, 'x')")
    assert by_entry_points("redirected") == [[3, 4, 5]] * 4
    assert by_entry_points("redirected$branch_main") == [[1, 9]] * 4
    sql.sql("ALTER TABLE redirected UNSET TBLPROPERTIES ('branch')")
    assert by_entry_points("redirected") == [[1, 9]] * 4


def test_a_stored_option_branch_without_that_branch_says_what_to_do(tmp_path: Path) -> None:
    made = make_table(tmp_path / "t")
    made.schemas.commit_next(
        lambda latest: replace(latest, id=latest.id + 1, options={**latest.options, "branch": "gone"})
    )
    with pytest.raises(SchemaError, match=r"'branch' = 'gone'.*t\$branch_main"):
        load_table(str(tmp_path / "t"))
    alter_table(load_table(str(tmp_path / "t$branch_main")), [RemoveOption("branch")])
    assert load_table(str(tmp_path / "t")).branch == "main"


def test_the_option_branch_of_session_and_read_names_the_branch(sql: SparkSession, warehouse: Path, table: str) -> None:
    sql.sql(f"CALL sys.create_branch('{table}', 'b')")
    sql.sql(f"INSERT INTO `{table}$branch_b` VALUES (7, 'x')")

    def plain(statement: str) -> DataFrame:
        return paimon_spark.sql(sql, statement, warehouse=str(warehouse), catalog="text", database="db")

    assert [row.k for row in sql.sql(f"SELECT k FROM {table} WITH ('branch' = 'b')").collect()] == [7]
    assert [row.k for row in sql.read.option("branch", "b").table(table).collect()] == [7]
    assert [row.k for row in plain(f"SELECT k FROM text.db.{table} WITH ('branch' = 'b')").collect()] == [7]
    sql.conf.set("spark.paimon.branch", "b")
    try:
        assert keys(sql, table) == [7]
        assert [row.k for row in plain(f"SELECT k FROM text.db.{table}").collect()] == [7]
        for statement in (
            "INSERT INTO {} VALUES (8, 'x')",
            "DELETE FROM {} WHERE k IN (1, 7)",
            "UPDATE {} SET v = 'y'",
            "TRUNCATE TABLE {}",
            "INSERT OVERWRITE {} VALUES (8, 'x')",
            "MERGE INTO {} AS t USING (SELECT 1L AS k) AS s ON t.k = s.k WHEN MATCHED THEN DELETE",
        ):
            for front, name in ((sql.sql, table), (plain, f"text.db.{table}")):
                with pytest.raises((PySparkException, PaimonError, Py4JJavaError), match="to write to the branch name"):
                    front(statement.format(name))
        sql.sql(f"INSERT INTO `{table}$branch_b` VALUES (9, 'x')")
        plain(f"INSERT INTO text.db.`{table}$branch_b` VALUES (10, 'x')")
        sql.conf.set("spark.paimon.branch", "main")
        with pytest.raises((PySparkException, PaimonError), match="contradicts"):
            keys(sql, f"{table}$branch_b")
    finally:
        sql.conf.unset("spark.paimon.branch")
    assert keys(sql, table) == [1, 2]
    assert keys(sql, f"{table}$branch_b") == [7, 9, 10]
