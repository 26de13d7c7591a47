"""The statements of the matrix: every kind that a user types, each with what it must give."""

from __future__ import annotations

from typing import Any

from tests.matrix.statement import Session, Statement

AB = [(1, "a"), (2, "b")]
NOW = [(1, "a"), (2, "B")]


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    """The rows of a DataFrame."""
    return [tuple(row) for row in frame.collect()]


def first_columns(count: int, text: str) -> Any:
    """The first columns of what an SQL text gives."""
    return lambda m, n: [row[:count] for row in m.sql(text, n)]


def has(text: str, *words: str) -> Any:
    """Whether what an SQL text gives holds all the words."""
    return lambda m, n: all(word in str(m.sql(text, n)) for word in words)


def set_for(key: str, value: str, text: str) -> Any:
    """What an SQL text gives while an option of the session is set."""

    def run(m: Session, n: str) -> Any:
        m.spark.conf.set(key.replace("{n}", n), value)
        try:
            return m.sql(text, n)
        finally:
            m.spark.conf.unset(key.replace("{n}", n))

    return run


def frame_of(m: Session, *rows: tuple[Any, ...]) -> Any:
    """A DataFrame of the columns k and v."""
    return m.spark.createDataFrame(list(rows), "k int, v string")


def planned(text: str, *words: str) -> Any:
    """Whether the physical plan of a query shows all the words, and its rows."""

    def run(m: Session, n: str) -> Any:
        frame = m.spark.sql(text.replace("{n}", n))
        plan = str(frame._jdf.queryExecution().executedPlan().toString())
        missing = [word for word in words if word not in plan]
        return f"no {missing} in {plan}" if missing else rows_of(frame)

    return run


def _new_session(m: Session, n: str) -> Any:
    import paimon_spark

    try:
        return rows_of(m.spark.newSession().sql(f"SELECT * FROM m.db.{n}"))
    finally:
        paimon_spark.register(m.spark)
        m.spark.sql("USE m.db")


def _for_each_batch(m: Session, n: str) -> Any:
    rate = m.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "2").load()

    def write(batch: Any, _number: int) -> None:
        batch.selectExpr("CAST(value AS INT) AS k", "'s' AS v").createOrReplaceTempView("matrix_batch")
        batch.sparkSession.sql(f"INSERT INTO m.db.{n} SELECT * FROM matrix_batch")

    query = rate.writeStream.foreachBatch(write).trigger(once=True).start()
    query.awaitTermination(120)


def _two_views(m: Session, n: str) -> Any:
    m.spark.table(n).createOrReplaceTempView("matrix_view")
    text = "SELECT k FROM matrix_view WHERE k = 1 UNION ALL SELECT k FROM matrix_view WHERE k = 2"
    return m.sql(text, n)


def _cached(m: Session, n: str) -> Any:
    frame = m.spark.table(n).cache()
    try:
        frame.count()
        plan = str(m.spark.table(n).where("k = 1")._jdf.queryExecution().executedPlan().toString())
        return "InMemoryTableScan" in plan
    finally:
        frame.unpersist()


def _ctas(m: Session, n: str) -> Any:
    text = "CREATE TABLE {n} PARTITIONED BY (v) TBLPROPERTIES ('file.format'='orc') AS SELECT 1 AS k, 'a' AS v"
    m.sql(text, n)
    return m.sql("SELECT * FROM {n}", n)


def _dynamic(m: Session, n: str) -> Any:
    run = set_for("spark.sql.sources.partitionOverwriteMode", "dynamic", "INSERT OVERWRITE {n} VALUES (3, 'y')")
    run(m, n)


G = "Databases and tables"
TABLES = [
    Statement(G, "SHOW CATALOGS", lambda m, n: ("m",) in m.sql("SHOW CATALOGS", n), True),
    Statement(G, "CREATE DATABASE, DROP DATABASE", "CREATE DATABASE m.d1", [], "DROP DATABASE m.d1", short=True),
    Statement(G, "SHOW DATABASES", "SHOW DATABASES IN m LIKE 'd*'", [("db",), ("default",)]),
    Statement(G, "DESCRIBE DATABASE", lambda m, n: m.sql("DESCRIBE DATABASE m.db", n)[0][0], "Catalog Name"),
    Statement(G, "USE m.db", "SELECT current_catalog(), current_schema()", [("m", "db")]),
    Statement(
        G,
        "CREATE TABLE … PARTITIONED BY … COMMENT … TBLPROPERTIES",
        "CREATE TABLE {n} (k INT NOT NULL, v STRING COMMENT 'text', d INT DEFAULT 5, dt STRING) PARTITIONED BY (dt) "
        "COMMENT 'all' TBLPROPERTIES ('primary-key'='dt,k', 'bucket'='1')",
        True,
        has("SHOW CREATE TABLE {n}", "COMMENT 'text'", "PARTITIONED BY (dt)", "'primary-key' = 'dt,k'", "DEFAULT 5"),
        short=True,
    ),
    Statement(G, "CREATE TABLE … AS SELECT", _ctas, [(1, "a")], short=True),
    Statement(
        G,
        "CREATE OR REPLACE TABLE … AS SELECT",
        "CREATE OR REPLACE TABLE {n} AS SELECT k + 1 AS k FROM {n}",
        [(2,), (3,)],
        "SELECT * FROM {n}",
        "append",
        short=True,
    ),
    Statement(G, "REPLACE TABLE", "REPLACE TABLE {n} (z INT)", ["z"], lambda m, n: m.spark.table(n).columns, "empty"),
    Statement(
        G,
        "CREATE TABLE … LIKE",
        "CREATE TABLE {n}_like LIKE {n}",
        ["k", "v"],
        lambda m, n: m.spark.table(f"{n}_like").columns,
        "empty",
        short=True,
    ),
    Statement(
        G, "SHOW TABLES", lambda m, n: m.sql("SHOW TABLES LIKE '{n}'", n) == [("db", n, False)], True, given="empty"
    ),
    Statement(G, "DROP TABLE", "DROP TABLE {n}", False, lambda m, n: m.spark.catalog.tableExists(n), "empty"),
    Statement(
        G, "DROP TABLE … PURGE", "DROP TABLE {n} PURGE", False, lambda m, n: m.spark.catalog.tableExists(n), "empty"
    ),
    Statement(
        G, "ALTER TABLE … RENAME TO", "ALTER TABLE {n} RENAME TO {n}_b", AB, "SELECT * FROM {n}_b", "append", short=True
    ),
    Statement(G, "TRUNCATE TABLE", "TRUNCATE TABLE {n}", [], "SELECT * FROM {n}", "append", short=True),
    Statement(
        G,
        "TRUNCATE TABLE … PARTITION",
        "TRUNCATE TABLE {n} PARTITION (dt = 'x')",
        [(2, "y")],
        "SELECT * FROM {n}",
        "days",
    ),
    Statement(
        G,
        "ALTER TABLE … DROP PARTITION",
        "ALTER TABLE {n} DROP PARTITION (dt = 'x')",
        [(2, "y")],
        "SELECT * FROM {n}",
        "days",
        short=True,
    ),
    Statement(G, "COMMENT ON TABLE", "COMMENT ON TABLE {n} IS 'hi'", True, has("DESCRIBE EXTENDED {n}", "hi"), "empty"),
    Statement(G, "REFRESH TABLE", "REFRESH TABLE {n}", [], given="append", shared=True),
    Statement(G, "a table by its path", "SELECT * FROM m.`{path}`", AB, given="append", shared=True, short=True),
]

G = "Showing"
SHOWING = [
    Statement(
        G,
        "DESCRIBE",
        "DESCRIBE {n}",
        [("dt", "string", None), ("k", "int", None)],
        lambda m, n: m.sql("DESCRIBE {n}", n)[:2],
        "days",
        shared=True,
        short=True,
    ),
    Statement(G, "DESCRIBE EXTENDED", has("DESCRIBE EXTENDED {n}", "paimon"), True, given="days", shared=True),
    Statement(G, "DESCRIBE of a column", has("DESCRIBE {n} k", "int"), True, given="days", shared=True),
    Statement(
        G,
        "DESCRIBE of a query",
        first_columns(2, "DESCRIBE SELECT * FROM {n}"),
        [("dt", "string"), ("k", "int")],
        given="days",
        shared=True,
    ),
    Statement(
        G,
        "SHOW CREATE TABLE",
        has("SHOW CREATE TABLE {n}", "PARTITIONED BY (dt)"),
        True,
        given="days",
        shared=True,
        short=True,
    ),
    Statement(G, "SHOW COLUMNS", "SHOW COLUMNS IN {n}", [("dt",), ("k",)], given="days", shared=True),
    Statement(G, "SHOW TBLPROPERTIES", has("SHOW TBLPROPERTIES {n}", "primary-key"), True, given="keyed", shared=True),
    Statement(
        G, "SHOW PARTITIONS", "SHOW PARTITIONS {n}", [("dt=x",), ("dt=y",)], given="days", shared=True, short=True
    ),
    Statement(
        G, "SHOW TABLE EXTENDED", has("SHOW TABLE EXTENDED LIKE '{n}'", "dt: string"), True, given="days", shared=True
    ),
    Statement(
        G, "EXPLAIN", has("EXPLAIN SELECT k FROM {n}", "columns=[k]"), True, given="days", shared=True, short=True
    ),
]

G = "ALTER TABLE"
ALTERS = [
    Statement(
        G,
        "ADD COLUMN … AFTER, nested too",
        "ALTER TABLE {n} ADD COLUMN s STRUCT<a: INT> AFTER k",
        [("k",), ("s",), ("v",)],
        "SHOW COLUMNS IN {n}",
        "empty",
        short=True,
    ),
    Statement(
        G,
        "ADD COLUMNS (…)",
        "ALTER TABLE {n} ADD COLUMNS (x INT, y INT)",
        ["k", "v", "x", "y"],
        lambda m, n: m.spark.table(n).columns,
        "empty",
    ),
    Statement(G, "DROP COLUMN", "ALTER TABLE {n} DROP COLUMN v", ["k"], lambda m, n: m.spark.table(n).columns, "empty"),
    Statement(
        G,
        "RENAME COLUMN",
        "ALTER TABLE {n} RENAME COLUMN v TO w",
        [(1, "a"), (2, "b")],
        "SELECT k, w FROM {n}",
        "append",
        short=True,
    ),
    Statement(
        G,
        "ALTER COLUMN … TYPE",
        "ALTER TABLE {n} ALTER COLUMN k TYPE BIGINT",
        [("k", "bigint"), ("v", "string")],
        first_columns(2, "DESCRIBE {n}"),
        "append",
    ),
    Statement(
        G,
        "ALTER COLUMN … FIRST, AFTER",
        "ALTER TABLE {n} ALTER COLUMN v FIRST",
        True,
        lambda m, n: m.spark.table(n).columns == ["v", "k"],
        "empty",
    ),
    Statement(
        G,
        "ALTER COLUMN … COMMENT",
        "ALTER TABLE {n} ALTER COLUMN v COMMENT 'text'",
        True,
        has("DESCRIBE {n}", "text"),
        "empty",
    ),
    Statement(
        G,
        "ALTER COLUMN … SET DEFAULT",
        "ALTER TABLE {n} ALTER COLUMN v SET DEFAULT 'z'",
        [(7, "z")],
        lambda m, n: m.sql("INSERT INTO {n} (k) VALUES (7)", n) or m.sql("SELECT * FROM {n}", n),
        "empty",
        short=True,
    ),
    Statement(
        G,
        "ALTER COLUMN … DROP NOT NULL",
        lambda m, n: (
            m.sql("CREATE TABLE {n} (k INT NOT NULL)", n) or m.sql("ALTER TABLE {n} ALTER COLUMN k DROP NOT NULL", n)
        ),
        True,
        lambda m, n: m.spark.table(n).schema["k"].nullable,
    ),
    Statement(
        G,
        "SET TBLPROPERTIES, UNSET TBLPROPERTIES",
        "ALTER TABLE {n} SET TBLPROPERTIES ('snapshot.num-retained.min'='3')",
        True,
        has("SHOW TBLPROPERTIES {n}", "snapshot.num-retained.min"),
        "empty",
    ),
]

G = "Queries"
QUERIES = [
    Statement(
        G,
        "SELECT with columns and filters pushed down",
        planned("SELECT k FROM {n} WHERE dt = 'x' AND k > 0", "columns=[k", "files=1"),
        [(1,)],
        given="days",
        shared=True,
        short=True,
    ),
    Statement(
        G,
        "local Parquet files read by Spark's own reader",
        planned("SELECT dt, k FROM {n} WHERE k > 1", "reader=spark-parquet"),
        [("y", 2)],
        given="days",
        shared=True,
        short=True,
    ),
    Statement(
        G,
        "nested columns pruned",
        lambda m, n: (
            m.sql("CREATE TABLE {n} AS SELECT named_struct('a', 1, 'b', 2) AS s", n)
            or planned("SELECT s.a FROM {n}", "s:struct<a:int>")(m, n)
        ),
        [(1,)],
    ),
    Statement(
        G,
        "count(*), min, max without a task",
        planned("SELECT count(*), max(k) FROM {n}", "LocalTableScan"),
        [(2, 2)],
        given="append",
        shared=True,
        short=True,
    ),
    Statement(
        G, "LIMIT", planned("SELECT k FROM {n} WHERE dt = 'y' LIMIT 1", "limit=1"), [(2,)], given="days", shared=True
    ),
    Statement(
        G,
        "joins that leave out partitions while they run",
        planned("SELECT a.k FROM {n} a JOIN (SELECT * FROM {n} WHERE k = 2) b ON a.dt = b.dt", "dynamicpruning"),
        [(2,)],
        given="days",
        shared=True,
    ),
    Statement(
        G,
        "a self-join",
        "SELECT a.k, b.k FROM {n} a JOIN {n} b ON a.k = b.k - 1",
        [(1, 2)],
        given="append",
        shared=True,
    ),
    Statement(G, "a temporary view filtered twice", _two_views, [(1,), (2,)], given="append", shared=True),
    Statement(G, "DataFrame.cache", _cached, True, given="append", shared=True, short=True),
    Statement(
        G,
        "metadata columns",
        "SELECT k, __paimon_bucket, __paimon_row_index, __paimon_partition.dt, length(__paimon_file_path) > 9 FROM {n}",
        [(1, 0, 0, "x", True), (2, 0, 0, "y", True)],
        given="days",
        shared=True,
        short=True,
    ),
    Statement(
        G, "spark.table, spark.read.table", lambda m, n: rows_of(m.spark.read.table(n)), AB, given="append", shared=True
    ),
    Statement(
        G,
        "spark.sql with arguments",
        lambda m, n: rows_of(m.spark.sql(f"SELECT v FROM {n} WHERE k = :k", args={"k": 2})),
        [("b",)],
        given="append",
        shared=True,
    ),
    Statement(
        G,
        "CTE, subqueries, window functions",
        "WITH c AS (SELECT k, row_number() OVER (ORDER BY k DESC) AS r FROM {n}) "
        "SELECT k FROM c WHERE r = 1 AND k IN (SELECT k FROM {n})",
        [(2,)],
        given="append",
        shared=True,
    ),
    Statement(
        G,
        "sys.max_pt, the largest partition",
        planned("SELECT k FROM {n} WHERE dt = sys.max_pt('{n}')", "files=1"),
        [(2,)],
        given="days",
        shared=True,
        short=True,
    ),
    Statement(
        G,
        "a temporary view",
        "CREATE OR REPLACE TEMPORARY VIEW matrix_temporary AS SELECT * FROM {n}",
        AB,
        "SELECT * FROM matrix_temporary",
        "append",
        shared=True,
    ),
]

G = "Time travel"
TRAVEL = [
    Statement(G, "VERSION AS OF n", "SELECT * FROM {n} VERSION AS OF 1", AB, given="history", shared=True, short=True),
    Statement(
        G,
        "VERSION AS OF 'tag'",
        "SELECT * FROM {n} VERSION AS OF 'first'",
        AB,
        given="history",
        shared=True,
        short=True,
    ),
    Statement(
        G,
        "TIMESTAMP AS OF",
        "SELECT * FROM {n} TIMESTAMP AS OF '2100-01-01 00:00:00'",
        NOW,
        given="history",
        shared=True,
        short=True,
    ),
    Statement(
        G,
        "TIMESTAMP AS OF of an expression",
        "SELECT * FROM {n} TIMESTAMP AS OF current_timestamp()",
        NOW,
        given="history",
        shared=True,
    ),
    Statement(
        G,
        "FROM t WITH ('scan.tag-name' = …)",
        "SELECT * FROM {n} WITH ('scan.tag-name' = 'first')",
        AB,
        given="history",
        shared=True,
        short=True,
    ),
    Statement(
        G,
        "spark.read.option(…).table",
        lambda m, n: rows_of(m.spark.read.option("scan.tag-name", "first").table(n)),
        AB,
        given="history",
        shared=True,
        short=True,
    ),
    Statement(
        G,
        'spark.read.option("versionAsOf", …).table',
        lambda m, n: rows_of(m.spark.read.option("versionAsOf", "first").table(n)),
        AB,
        given="history",
        shared=True,
        short=True,
    ),
    Statement(
        G,
        "SET spark.paimon.scan.…",
        set_for("spark.paimon.scan.snapshot-id", "1", "SELECT * FROM {n}"),
        AB,
        given="history",
        shared=True,
    ),
    Statement(
        G,
        "SET spark.paimon.<catalog>.<db>.<table>.scan.…",
        set_for("spark.paimon.m.db.{n}.scan.tag-name", "first", "SELECT * FROM {n}"),
        AB,
        given="history",
        shared=True,
    ),
    Statement(
        G,
        "two versions in one query",
        "SELECT a.v, b.v FROM {n} VERSION AS OF 1 a JOIN {n} b USING (k)",
        [("a", "a"), ("b", "B")],
        given="history",
        shared=True,
    ),
    Statement(
        G,
        'format("paimon").option(…).load(path)',
        lambda m, n: rows_of(m.spark.read.format("paimon").option("scan.version", "first").load(m.path(n))),
        AB,
        given="history",
        shared=True,
    ),
]

G = "System tables"
SYSTEM = [
    Statement(
        G,
        "t$snapshots",
        "SELECT snapshot_id, commit_kind FROM `{n}$snapshots`",
        [(1, "APPEND"), (2, "APPEND")],
        given="history",
        shared=True,
        short=True,
    ),
    Statement(
        G,
        "t$tags",
        "SELECT tag_name, snapshot_id FROM `{n}$tags` WHERE tag_name = 'first'",
        [("first", 1)],
        given="history",
        shared=True,
    ),
    Statement(G, "t$schemas", "SELECT schema_id FROM `{n}$schemas`", [(0,)], given="history", shared=True),
    Statement(
        G,
        "t$options",
        "SELECT * FROM `{n}$options` WHERE key <> 'owner'",
        [("bucket", "1")],
        given="history",
        shared=True,
    ),
    Statement(G, "t$files", "SELECT sum(record_count) FROM `{n}$files`", [(3,)], given="history", shared=True),
    Statement(
        G, "t$manifests", "SELECT sum(num_added_files) FROM `{n}$manifests`", [(2,)], given="history", shared=True
    ),
    Statement(G, "t$partitions", "SELECT record_count FROM `{n}$partitions`", [(1,), (1,)], given="days", shared=True),
    Statement(G, "t$branches", "SELECT count(*) FROM `{n}$branches`", [(0,)], given="history", shared=True),
    Statement(
        G,
        "t$files VERSION AS OF",
        "SELECT sum(record_count) FROM `{n}$files` VERSION AS OF 1",
        [(2,)],
        given="history",
        shared=True,
    ),
    Statement(
        G,
        'format("paimon").load("…/t$files")',
        lambda m, n: m.spark.read.format("paimon").load(m.path(n) + "$files").count(),
        2,
        given="history",
        shared=True,
        short=True,
    ),
]

TAG = "SELECT tag_name, snapshot_id FROM `{n}$tags`"
G = "Tags and procedures"
TAGS = [
    Statement(
        G,
        "CALL sys.create_tag",
        "CALL sys.create_tag(table => 'db.{n}', tag => 'x', snapshot => 1)",
        [("x", 1)],
        TAG + " WHERE tag_name = 'x'",
        "history",
        shared=True,
        short=True,
    ),
    Statement(
        G,
        "CALL with positions",
        "CALL m.sys.create_tag('db.{n}', 'p')",
        [("p", 2)],
        TAG + " WHERE tag_name = 'p'",
        "history",
        shared=True,
    ),
    Statement(
        G,
        "CALL sys.replace_tag, rename_tag, delete_tag",
        lambda m, n: [
            m.sql(text, n)
            for text in (
                "CALL sys.create_tag('db.{n}', 'r')",
                "CALL sys.rename_tag(table => 'db.{n}', tag => 'r', target_tag => 'r2')",
                "CALL sys.replace_tag(table => 'db.{n}', tag => 'r2', snapshot => 1)",
                "CALL sys.delete_tag(table => 'db.{n}', tag => 'r2')",
            )
        ],
        [],
        TAG + " WHERE tag_name LIKE 'r%'",
        "history",
        shared=True,
    ),
    Statement(
        G,
        "CALL sys.rollback",
        "CALL sys.rollback(table => 'db.{n}', version => '1')",
        AB,
        "SELECT * FROM {n}",
        "history",
        short=True,
    ),
    Statement(
        G,
        "CALL sys.compact",
        "CALL sys.compact(table => 'db.{n}')",
        [(5, 1)],
        "SELECT level, count(*) FROM `{n}$files` GROUP BY level",
        "history",
        short=True,
    ),
    Statement(
        G,
        "SHOW PROCEDURES",
        lambda m, n: any("create_tag" in str(row) for row in m.sql("SHOW PROCEDURES IN m.sys", n)),
        True,
        since="4.1",
        short=True,
    ),
    Statement(G, "DESCRIBE PROCEDURE", has("DESCRIBE PROCEDURE m.sys.create_tag", "create_tag"), True, since="4.1"),
    Statement(
        G,
        "ALTER TABLE … CREATE TAG … AS OF VERSION … RETAIN",
        "ALTER TABLE {n} CREATE TAG g AS OF VERSION 1 RETAIN 3 DAYS",
        [("g", 1)],
        TAG + " WHERE tag_name = 'g'",
        "history",
        shared=True,
        short=True,
    ),
    Statement(
        G,
        "ALTER TABLE … REPLACE, RENAME, DELETE TAG",
        lambda m, n: [
            m.sql(text, n)
            for text in (
                "ALTER TABLE {n} CREATE TAG q1",
                "ALTER TABLE {n} REPLACE TAG q1 AS OF VERSION 1",
                "ALTER TABLE {n} RENAME TAG q1 TO q2",
                "ALTER TABLE {n} DELETE TAG q2",
            )
        ],
        [],
        TAG + " WHERE tag_name LIKE 'q%'",
        "history",
        shared=True,
    ),
    Statement(G, "SHOW TAGS", lambda m, n: ("first",) in m.sql("SHOW TAGS {n}", n), True, given="history", shared=True),
]

G = "INSERT"
ALL = "SELECT * FROM {n}"
INSERTS = [
    Statement(G, "INSERT INTO … VALUES", "INSERT INTO {n} VALUES (1, 'a'), (2, 'b')", AB, ALL, "empty", short=True),
    Statement(
        G,
        "INSERT INTO … SELECT",
        "INSERT INTO {n} SELECT CAST(id AS INT), 'a' FROM range(1, 2)",
        [(1, "a")],
        ALL,
        "empty",
    ),
    Statement(
        G, "INSERT INTO … (columns)", "INSERT INTO {n} (v) VALUES ('a')", [(None, "a")], ALL, "empty", short=True
    ),
    Statement(
        G,
        "INSERT INTO … BY NAME",
        "INSERT INTO {n} BY NAME SELECT 'a' AS v, 1 AS k",
        [(1, "a")],
        ALL,
        "empty",
        short=True,
    ),
    Statement(
        G,
        "INSERT INTO … BY NAME with fewer columns",
        "INSERT INTO {n} BY NAME SELECT 'a' AS v",
        [(None, "a")],
        ALL,
        "empty",
        short=True,
    ),
    Statement(
        G,
        "INSERT INTO … PARTITION",
        "INSERT INTO {n} PARTITION (dt = 'z') VALUES (3)",
        [(1, "x"), (2, "y"), (3, "z")],
        ALL,
        "days",
    ),
    Statement(G, "DEFAULT in VALUES", "INSERT INTO {n} VALUES (3, DEFAULT)", [(3, None)], ALL, "empty"),
    Statement(G, "INSERT INTO … TABLE", "INSERT INTO {n} TABLE {n}", AB + AB, ALL, "append"),
    Statement(
        G,
        "upsert into a primary-key table",
        "INSERT INTO {n} VALUES (2, 'B'), (3, 'c')",
        [*NOW, (3, "c")],
        ALL,
        "keyed",
        short=True,
    ),
    Statement(G, "INSERT OVERWRITE", "INSERT OVERWRITE {n} VALUES (3, 'z')", [(3, "z")], ALL, "days", short=True),
    Statement(
        G,
        "INSERT OVERWRITE … PARTITION",
        "INSERT OVERWRITE {n} PARTITION (dt = 'y') VALUES (3)",
        [(1, "x"), (3, "y")],
        ALL,
        "days",
        short=True,
    ),
    Statement(
        G,
        "SET spark.paimon.<option> for a write",
        set_for("spark.paimon.file.format", "orc", "INSERT INTO {n} VALUES (3, 'c')"),
        [("orc",), ("parquet",)],
        "SELECT DISTINCT file_format FROM `{n}$files`",
        "append",
        short=True,
    ),
    Statement(G, "INSERT OVERWRITE, partitionOverwriteMode dynamic", _dynamic, [(1, "x"), (3, "y")], ALL, "days"),
    Statement(
        G,
        "INSERT INTO … REPLACE WHERE",
        "INSERT INTO {n} REPLACE WHERE dt = 'y' VALUES (3, 'y')",
        [(1, "x"), (3, "y")],
        ALL,
        "days",
    ),
    Statement(
        G,
        "EXPLAIN INSERT",
        has("EXPLAIN INSERT INTO {n} VALUES (1, 'a')", "AppendData"),
        True,
        given="append",
        shared=True,
    ),
]

G = "DataFrame writers"
WRITERS = [
    Statement(
        G,
        "writeTo(…).append()",
        lambda m, n: frame_of(m, (1, "a")).select("v", "k").writeTo(n).append(),
        [(1, "a")],
        ALL,
        "empty",
        short=True,
    ),
    Statement(
        G,
        "writeTo(…).append() with fewer columns",
        lambda m, n: frame_of(m, (1, "a")).select("v").writeTo(n).append(),
        [(None, "a")],
        ALL,
        "empty",
        short=True,
    ),
    Statement(
        G,
        "writeTo(…).overwrite(condition)",
        lambda m, n: m.spark.sql("SELECT 3 AS k, 'y' AS dt").writeTo(n).overwrite(_column("dt") == "y"),
        [(1, "x"), (3, "y")],
        ALL,
        "days",
    ),
    Statement(
        G,
        "writeTo(…).overwritePartitions()",
        lambda m, n: m.spark.sql("SELECT 3 AS k, 'y' AS dt").writeTo(n).overwritePartitions(),
        [(1, "x"), (3, "y")],
        ALL,
        "days",
        short=True,
    ),
    Statement(
        G,
        "writeTo(…).create(), createOrReplace()",
        lambda m, n: (
            frame_of(m, (1, "a")).writeTo(n).tableProperty("bucket", "-1").create()
            or frame_of(m, (2, "b")).writeTo(n).createOrReplace()
        ),
        [(2, "b")],
        ALL,
    ),
    Statement(
        G,
        "saveAsTable, append",
        lambda m, n: frame_of(m, (3, "c")).write.format("paimon").mode("append").saveAsTable(n),
        [*AB, (3, "c")],
        ALL,
        "append",
        short=True,
    ),
    Statement(
        G,
        "saveAsTable, append with fewer columns",
        lambda m, n: frame_of(m, (3, "c")).select("k").write.format("paimon").mode("append").saveAsTable(n),
        [(3, None)],
        ALL,
        "empty",
    ),
    Statement(
        G,
        "saveAsTable, overwrite",
        lambda m, n: frame_of(m, (3, "c")).write.format("paimon").mode("overwrite").saveAsTable(n),
        [(3, "c")],
        ALL,
        "append",
    ),
    Statement(
        G,
        "saveAsTable of a new table",
        lambda m, n: frame_of(m, (3, "c")).write.format("paimon").saveAsTable(n),
        [(3, "c")],
        ALL,
    ),
    Statement(G, "insertInto", lambda m, n: frame_of(m, (3, "c")).write.insertInto(n), [*AB, (3, "c")], ALL, "append"),
    Statement(
        G,
        'format("paimon").save(path)',
        lambda m, n: frame_of(m, (3, "c")).write.format("paimon").mode("append").save(m.path(n)),
        [*AB, (3, "c")],
        ALL,
        "append",
    ),
    Statement(G, "foreachBatch, its session's SQL", _for_each_batch, [(0, "s"), (1, "s")], ALL, "empty", short=True),
]

G = "spark.catalog and sessions"
SESSIONS = [
    Statement(
        G,
        "listTables, tableExists, getTable",
        lambda m, n: (
            n in {t.name for t in m.spark.catalog.listTables()},
            m.spark.catalog.tableExists(f"m.db.{n}"),
            m.spark.catalog.getTable(f"m.db.{n}").name == n,
        ),
        (True, True, True),
        given="append",
        shared=True,
    ),
    Statement(
        G,
        "listColumns",
        lambda m, n: [c.name for c in m.spark.catalog.listColumns(f"m.db.{n}")],
        ["k", "v"],
        given="append",
        shared=True,
    ),
    Statement(
        G,
        "listCatalogs, listDatabases",
        lambda m, n: (
            "m" in {c.name for c in m.spark.catalog.listCatalogs()},
            "db" in {d.name for d in m.spark.catalog.listDatabases()},
        ),
        (True, True),
    ),
    Statement(
        G,
        "refreshTable, cacheTable",
        lambda m, n: (
            m.spark.catalog.refreshTable(n) or m.spark.catalog.cacheTable(n) or m.spark.catalog.uncacheTable(n)
        ),
        None,
        given="append",
        shared=True,
    ),
    Statement(
        G,
        "createTable, listFunctions, functionExists",
        lambda m, n: (
            m.spark.catalog.createTable(n, schema=m.spark.range(1).schema).count(),
            len(m.spark.catalog.listFunctions()) > 0,
            m.spark.catalog.functionExists("sys.max_pt"),
        ),
        (0, True, True),
    ),
    Statement(G, "spark.newSession()", _new_session, AB, given="append", shared=True, short=True),
]

G = "Row-level changes"
CHANGES = [
    Statement(G, "DELETE FROM", "DELETE FROM {n} WHERE v = 'a'", [(2, "b")], ALL, "keyed", short=True),
    Statement(G, "DELETE FROM, without a primary key", "DELETE FROM {n} WHERE v = 'a'", [(2, "b")], ALL, "append"),
    Statement(
        G, "UPDATE, without a primary key", "UPDATE {n} SET k = 3 WHERE v = 'a'", [(2, "b"), (3, "a")], ALL, "append"
    ),
    Statement(G, "DELETE FROM, of whole partitions", "DELETE FROM {n} WHERE dt < 'y'", [(2, "y")], ALL, "days"),
    Statement(G, "UPDATE", "UPDATE {n} SET v = 'z' WHERE k = 1", [(1, "z"), (2, "b")], ALL, "keyed", short=True),
    Statement(
        G,
        "MERGE INTO",
        "MERGE INTO {n} USING (SELECT 1 AS k) s ON {n}.k = s.k WHEN MATCHED THEN DELETE",
        [(2, "b")],
        ALL,
        "append",
        short=True,
    ),
]


def _column(name: str) -> Any:
    from pyspark.sql.functions import col

    return col(name)


STATEMENTS: list[Statement] = [
    *(*TABLES, *SHOWING, *ALTERS, *QUERIES, *TRAVEL, *SYSTEM, *TAGS, *INSERTS, *WRITERS, *SESSIONS, *CHANGES)
]


def short_statements() -> list[Statement]:
    """What is tried on every version in CI."""
    return [statement for statement in STATEMENTS if statement.short]
