"""What methods of `PaimonTable` and statements answer, on any kind of session."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

import paimon_spark
from paimon_spark import (
    OptionError,
    PaimonTable,
    RowCounts,
    SchemaChangeError,
    SchemaError,
    SnapshotNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)

KEYED = {"primary_key": "id", "options": {"bucket": "2"}}
PLAIN: dict[str, Any] = {}
VECTORS = {"options": {"deletion-vectors.enabled": "true"}}
COLUMNS = {"options": {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}}
CROSS_PARTITION = {"primary_key": "id", "partition_by": "p", "options": {"bucket": "-1"}}
KINDS: dict[str, dict[str, Any]] = {
    "keyed": KEYED,
    "plain": PLAIN,
    "vectors": VECTORS,
    "data_evolution": COLUMNS,
    "cross_partition": CROSS_PARTITION,
}


def counts(found: RowCounts) -> tuple[int | None, ...]:
    """Affected, updated, deleted, inserted."""
    return found.num_affected_rows, found.num_updated_rows, found.num_deleted_rows, found.num_inserted_rows


def is_same(found: object, wanted: object) -> None:
    """Assert that, and say both: pytest does not rewrite this module."""
    assert found == wanted, f"{found} is not {wanted}"


def _source(spark: Any, *rows: tuple[int, str, str]) -> Any:
    return spark.createDataFrame(list(rows), "id int, v string, p string")


def check_counts(spark: Any, root: str, kind: str) -> None:
    """Each method that changes rows answers with what it did."""
    made = dict(KINDS[kind])
    made["options"] = {"write-only": "true", **made.get("options", {})}
    t = PaimonTable.create(spark, f"{root}/{kind}", "id int not null, v string, p string", **made)
    six = _source(spark, *((number, "a", "xy"[number % 2]) for number in range(6)))
    is_same(counts(t.append(six)), (6, 0, 0, 6))
    is_same(counts(t.update({"v": "'b'"}, "id < 3")), (3, 3, 0, 0))
    is_same(counts(t.update({"v": "'b'"}, "id > 99")), (0, 0, 0, 0))
    if kind != "data_evolution":
        done = t.delete("id = 0 or id = 1")
        is_same(counts(done), (2, 0, 2, 0))
        assert done.snapshot_id is not None
    is_same(counts(t.delete("id = 99") if kind != "data_evolution" else t.update({"v": "'c'"}, "false")), (0, 0, 0, 0))
    source = _source(
        spark, (2, "m", "x"), (3, "m", "y"), (4, "gone", "x"), (7, "new", "y"), (8, "new", "x"), (9, "no", "y")
    )
    merge = t.merge(source, "id")
    if kind != "data_evolution":
        merge = merge.when_matched_delete(condition="source.v = 'gone'")
    else:
        merge = merge.when_matched_update({"v": "source.v"}, condition="source.v = 'gone'")
    merge = merge.when_matched_update({"v": "source.v"}).when_not_matched_insert(condition="source.v = 'new'")
    found = counts(merge.execute())
    wanted: dict[str, tuple[int | None, ...]] = {"data_evolution": (5, 3, 0, 2), "cross_partition": (None, 2, None, 2)}
    is_same(found, wanted.get(kind, (5, 2, 1, 2)))
    if kind in ("keyed", "cross_partition"):
        is_same(counts(t.upsert(source)), (6, None, 0, None))
        upsert = t.merge(source, "id").when_matched_update().when_not_matched_insert().execute()
        assert upsert.num_affected_rows == 6, upsert
    else:
        is_same(counts(t.upsert(source, on="id")), (6, 5, 0, 1) if kind == "data_evolution" else (6, 4, 0, 2))
    is_same(counts(t.overwrite(six)), (6, 0, 0, 6))
    emptied = counts(t.delete())
    known = kind in ("plain", "data_evolution")
    assert emptied == ((6, 0, 6, 0) if known else (None, 0, None, 0)), emptied


def check_statements(run: Callable[[str], Any], table: str) -> None:
    """Statements answer with a row of counts, by the names of Delta Lake."""

    def row(statement: str) -> dict[str, int]:
        (found,) = run(statement).collect()
        return dict(found.asDict())

    options = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"
    run(f"CREATE TABLE {table} (id INT, v STRING) {options}")
    inserted = row(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    assert inserted == {"num_affected_rows": 3, "num_inserted_rows": 3}
    assert row(f"UPDATE {table} SET v = 'x' WHERE id > 1") == {"num_affected_rows": 2}
    assert row(f"DELETE FROM {table} WHERE id = 1") == {"num_affected_rows": 1}
    merged = row(
        f"MERGE INTO {table} t USING (SELECT explode(array(2, 3, 4)) AS id) s ON t.id = s.id "
        "WHEN MATCHED AND s.id = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'm' "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'n')"
    )
    assert merged == {"num_affected_rows": 3, "num_updated_rows": 1, "num_deleted_rows": 1, "num_inserted_rows": 1}
    database = table.split(".")[1]
    done = row(f"CALL {table.split('.')[0]}.sys.compact(table => '{database}.{table.split('.')[2]}')")
    is_same(list(done)[:2], ["result", "snapshot_id"])
    assert done["removed_files"] > done["added_files"] == 1, done
    assert done["removed_bytes"] > 0 < done["added_bytes"], done
    nothing = row(f"CALL {table.split('.')[0]}.sys.compact(table => '{database}.{table.split('.')[2]}')")
    is_same((nothing["snapshot_id"], nothing["removed_files"], nothing["added_files"]), (None, 0, 0))


def check_save_modes(spark: Any, root: str) -> None:
    """Modes of a save by path are those of Spark's own sources, and so is `timestampAsOf`."""
    path, other = f"{root}/modes.db/t", f"{root}/modes.db/u"
    one, two = (spark.createDataFrame([(number,)], "id int") for number in (1, 2))
    one.write.format("paimon").save(path)
    for mode in ("default", "error", "errorifexists", "ErrorIfExists"):
        with pytest.raises(AnalysisException, match="There is a Paimon table at"):
            two.write.format("paimon").mode(mode).save(path)
    with pytest.raises(AnalysisException, match="There is a Paimon table at"):
        two.write.save(path, format="paimon")
    two.write.format("paimon").mode("ignore").option("partition", "id").save(path)
    two.write.save(path=path, format="paimon", mode="ignore")
    two.write.format("paimon").mode("ignore").save(other)
    two.write.format("paimon").mode("error").option("path", f"{root}/modes.db/v").save()
    read = spark.read.format("paimon")
    is_same([row.id for row in read.load(path).collect()], [1])
    is_same([row.id for row in read.load(other).collect()], [2])
    is_same([row.id for row in read.load(f"{root}/modes.db/v").collect()], [2])
    two.write.format("paimon").mode("append").save(path)
    is_same(spark.read.format("paimon").option("timestampAsOf", "2999-01-01").load(path).count(), 2)
    frame = spark.read.format("paimon").load(path)
    is_same(frame.count(), len(frame.collect()))
    with pytest.raises(SnapshotNotFoundError):
        spark.read.format("paimon").option("timestampAsOf", "2001-01-01 10:00:00").load(path).collect()


def check_keys_and_copies(run: Callable[[str], Any], catalog: str) -> None:
    """PRIMARY KEY becomes the table's key; SHOW CREATE TABLE makes the same table elsewhere."""
    for name, columns in {
        "a": "id INT NOT NULL, v STRING, PRIMARY KEY (id)",
        "b": "id INT NOT NULL PRIMARY KEY COMMENT 'it''s', v STRING DEFAULT 'x'",
        "c": "id INT NOT NULL, `b c` VARCHAR(7) NOT NULL, CONSTRAINT k PRIMARY KEY (id, `b c`)",
    }.items():
        table = f"{catalog}.one.{name}"
        run(f"CREATE TABLE {table} ({columns}) COMMENT 'to be copied' TBLPROPERTIES ('bucket' = '1')")
        options = {row.key: row.value for row in run(f"SHOW TBLPROPERTIES {table}").collect()}
        is_same(options["primary-key"], "id,b c" if name == "c" else "id")
        (shown,) = (row[0] for row in run(f"SHOW CREATE TABLE {table}").collect())
        run(shown.replace(f"{catalog}.one.", f"{catalog}.other."))
        (copied,) = (row[0] for row in run(f"SHOW CREATE TABLE {catalog}.other.{name}").collect())
        is_same(copied.replace(f"{catalog}.other.", f"{catalog}.one."), shown)
    with pytest.raises(UnsupportedError, match="CREATE TEMPORARY VIEW v AS"):
        run(f"CREATE OR REPLACE VIEW {catalog}.one.v AS SELECT * FROM {catalog}.one.a")
    with pytest.raises(Exception, match=r"UNIQUE.* is not supported"):
        run(f"CREATE TABLE {catalog}.one.d (id INT, UNIQUE (id))")
    with pytest.raises(Exception, match="two keys"):
        run(f"CREATE TABLE {catalog}.one.e (id INT, v INT, PRIMARY KEY (id)) TBLPROPERTIES ('primary-key' = 'v')")


def check_keys_by_catalog(spark: Any, warehouse: str) -> None:
    """The same by statements of the session."""
    paimon_spark.register_catalog(spark, "copies", warehouse=warehouse)
    for database in ("one", "other"):
        spark.sql(f"CREATE DATABASE IF NOT EXISTS copies.{database}")
    check_keys_and_copies(spark.sql, "copies")


def check_keys_by_text(spark: Any, warehouse: str) -> None:
    """The same by `paimon_spark.sql`."""
    for database in ("one", "other"):
        paimon_spark.sql(spark, f"CREATE DATABASE IF NOT EXISTS texts.{database}", warehouse=warehouse, catalog="texts")
    check_keys_and_copies(lambda statement: paimon_spark.sql(spark, statement), "texts")


def check_definition(spark: Any, warehouse: str) -> None:
    """A table by its name; its columns, options, rows at a glance, and its end."""
    paimon_spark.register_catalog(spark, "named", warehouse)
    spark.sql("CREATE DATABASE IF NOT EXISTS named.shop")
    assert not PaimonTable.exists("named.shop.orders", spark=spark)
    path = f"{warehouse}/shop.db/orders"
    made = PaimonTable.create(
        spark, path, "dt string, id int not null, v string, w int", primary_keys="dt, id", partition_keys="dt"
    )
    with pytest.raises(OptionError, match="give one of the two"):
        PaimonTable.create(spark, f"{path}2", "id int", primary_key="id", primary_keys="id")
    Path(f"{warehouse}/folder").mkdir()
    Path(f"{warehouse}/folder/a.parquet").touch()
    for foreign in ("folder", "shop.db"):
        with pytest.raises(SchemaError, match=r"folder of Parquet files|directory of a database"):
            PaimonTable.create(spark, f"{warehouse}/{foreign}", "id int")
    assert PaimonTable.exists("named.shop.orders", spark=spark)
    assert PaimonTable.exists(path, spark=spark)
    t = PaimonTable.for_name(spark, "named.shop.orders")
    is_same(t.path, made.path)
    assert PaimonTable.for_name(spark, f"named.`{path}`").path == path
    for wrong in ("named.shop.none", "elsewhere.shop.orders", "orders"):
        with pytest.raises(TableNotFoundError, match="There is no Paimon table"):
            PaimonTable.for_name(spark, wrong)
    _check_changes(spark, t)
    t.drop()
    assert not PaimonTable.exists("named.shop.orders", spark=spark)


def _check_changes(spark: Any, t: PaimonTable) -> None:
    rows = spark.createDataFrame([("a", 1, "x", 1), ("b", 2, "y", 2)], "dt string, id int, v string, w int")
    t.append(rows)
    is_same(t.count(), 2)
    is_same(t.count(filter="dt = 'a'"), 1)
    is_same(t.columns, ["dt", "id", "v", "w"])
    t.add_column("price", "decimal(10, 2)", comment="in euros", after="id")
    t.rename_column("v", "name")
    t.alter_column("w", "bigint", comment="how many", default="7")
    t.add_column("s", "struct<x: int>")
    t.add_column("s.y", "string")
    is_same(t.columns, ["dt", "id", "price", "name", "w", "s"])
    is_same(t.schema["price"].dataType.simpleString(), "decimal(10,2)")
    is_same(t.schema["w"].dataType.simpleString(), "bigint")
    is_same(t.schema["s"].dataType.simpleString(), "struct<x:int,y:string>")
    t.drop_column("s, price")
    t.drop_column(["nothing"], ignore_if_missing=True)
    is_same([field.name for field in t.to_df().schema], ["dt", "id", "name", "w"])
    with pytest.raises(SchemaChangeError):
        t.drop_column("nothing")
    t.set_options(snapshot_num_retained_max=50, **{"fields.name.stats-mode": "none"})
    t.set_comment("of a shop")
    stored = {row.key: row.value for row in t.options().collect()}
    is_same((stored["snapshot.num-retained.max"], stored["fields.name.stats-mode"]), ("50", "none"))
    t.unset_options("snapshot_num_retained_max, fields.name.stats-mode")
    assert not {row.key for row in t.options().collect()} & set(stored) - {"bucket"}, stored
    is_same(counts(t.delete(condition="id = 1")), (1, 0, 1, 0))
    t.show(5, vertical=False)


def check_text_statements(spark: Any, warehouse: str) -> None:
    """The same of `paimon_spark.sql`."""
    paimon_spark.sql(spark, "CREATE DATABASE IF NOT EXISTS counted.db", warehouse=warehouse, catalog="counted")
    check_statements(lambda statement: paimon_spark.sql(spark, statement), "counted.db.texts")
