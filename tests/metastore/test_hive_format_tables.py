"""Tables of plain files in a Hive metastore: their records, those of Hive's own, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from conftest import absent
from paimon_spark.arrow.table import create_table as create_arrow_table
from paimon_spark.errors import PaimonError, SchemaError, TableNotFoundError, UnsupportedError
from paimon_spark.metastore.hive import HiveMetastore
from paimon_spark.metastore.hive_client import records
from paimon_spark.spec.data_types import DataField, DateType, IntType, VarCharType
from paimon_spark.spec.schema import create_schema, is_format_table
from paimon_spark.table.format_table import FormatTable, format_schema
from paimon_spark.table.metastore_catalog import MetastoreCatalog, open_catalog
from paimon_spark.table.schema_change import SetOption
from paimon_spark.table.schema_evolution import alter_table
from tests.support.hive_server import IS_HIVE_4, HiveServer, java_catalog

TEXT = VarCharType(VarCharType.MAX)
FIELDS = (DataField(0, "k", IntType()), DataField(1, "v", TEXT, "of a column"), DataField(2, "d", DateType(), "a day"))
TEXT_FILES = ("org.apache.hadoop.mapred.TextInputFormat", "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat")
ORC = "org.apache.hadoop.hive.ql.io.orc"
VARYING = ("createTime", "lastAccessTime")
OF_HIVE = ("transient_lastDdlTime", "last_modified_time", "last_modified_by", "numFiles", "totalSize")
"""What the metastore adds."""
PARTS = ("Table", "StorageDescriptor", "FieldSchema", "SerDeInfo", "SkewedInfo")


@pytest.fixture
def options(hive: HiveServer) -> dict[str, str]:
    return {"metastore": "hive", "uri": hive.uri}


@pytest.fixture
def catalog(tmp_path: Path, options: dict[str, str]) -> Iterator[MetastoreCatalog]:
    """A warehouse with the database ff."""
    found = open_catalog(str(tmp_path / "wh"), options)
    assert isinstance(found, MetastoreCatalog)
    found.create_database("ff")
    yield found
    for table in [*found.tables("ff"), *found.metastore.others("ff")]:
        found.metastore.drop_table("ff", table)
    found.metastore.drop_database("ff")


def metastore(catalog: MetastoreCatalog) -> HiveMetastore:
    assert isinstance(catalog.metastore, HiveMetastore)
    return catalog.metastore


@pytest.fixture
def showing(catalog: MetastoreCatalog, options: dict[str, str]) -> MetastoreCatalog:
    """The same, which shows the tables of Hive."""
    found = open_catalog(catalog.warehouse, {**options, "format-table.enabled": "true"})
    assert isinstance(found, MetastoreCatalog)
    return found


def made_by_hive(
    catalog: MetastoreCatalog, name: str, *, serde: str = "", formats: tuple[str, str] = TEXT_FILES, **more: Any
) -> Path:
    """Make a table as Hive does; return its directory."""
    hive = records()
    directory = Path(f"{catalog.database_path('ff')}/{name}")
    directory.mkdir(parents=True)
    columns = [hive.FieldSchema("a", more.pop("type", "int"), None), hive.FieldSchema("b", "string", "of Hive")]
    sd = hive.StorageDescriptor(
        cols=columns,
        location=str(directory),
        inputFormat=formats[0],
        outputFormat=formats[1],
        bucketCols=["a"] if more.pop("bucketed", False) else [],
        numBuckets=1,
        serdeInfo=hive.SerDeInfo(serializationLib=serde or None, parameters=more.pop("serde_parameters", {})),
    )
    made = hive.Table(
        tableName=name,
        dbName="ff",
        sd=sd,
        partitionKeys=[hive.FieldSchema("p", "int", None)] if more.pop("partitioned", False) else [],
        parameters=more.pop("parameters", {}),
        tableType="MANAGED_TABLE",
    )
    assert not more
    metastore(catalog).client.call("create_table", made)
    return directory


def test_tables_that_hive_made_are_format_tables(catalog: MetastoreCatalog, showing: MetastoreCatalog) -> None:
    directory = made_by_hive(catalog, "csv_own", partitioned=True, parameters={"comment": "theirs", "x": "y"})
    made_by_hive(catalog, "semicolons", serde_parameters={"field.delim": ";"})
    made_by_hive(catalog, "lines", parameters={"table_type": "TEXT"})
    made_by_hive(catalog, "objects", serde="org.apache.hive.hcatalog.data.JsonSerDe")
    made_by_hive(catalog, "columns", serde="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe")
    made_by_hive(catalog, "stripes", serde="org.apache.hadoop.hive.ql.io.orc.OrcSerde")
    sequence = ("org.apache.hadoop.mapred.SequenceFileInputFormat", "org.apache.hadoop.mapred.SequenceFileOutputFormat")
    made_by_hive(catalog, "binary_pairs", formats=sequence)
    made_by_hive(catalog, "odd", type="uniontype<int,string>")
    if not IS_HIVE_4:  # which refuses it to clients that do not say that they know such tables
        made_by_hive(
            catalog,
            "deltas",
            serde="org.apache.hadoop.hive.ql.io.orc.OrcSerde",
            formats=(f"{ORC}.OrcInputFormat", f"{ORC}.OrcOutputFormat"),
            bucketed=True,
            parameters={"transactional": "true"},
        )
    assert catalog.tables("ff") == []
    shown = ["columns", "csv_own", "lines", "objects", "semicolons", "stripes"]
    assert showing.tables("ff") == shown
    formats = {name: FormatTable.of(showing.load_table("ff", name)).format for name in shown}
    assert formats == {
        "columns": "parquet", "csv_own": "csv", "lines": "text", "objects": "json", "semicolons": "csv",
        "stripes": "orc",
    }  # fmt: skip
    found = showing.load_table("ff", "csv_own")
    assert (found.path, found.schema.comment, list(found.schema.partition_keys)) == (str(directory), "theirs", ["p"])
    assert [str(field.type) for field in found.schema.fields] == ["INT", "STRING", "INT"]
    assert found.schema.fields[1].description == "of Hive"
    assert found.schema.options == {
        "type": "format-table", "file.format": "csv", "csv.field-delimiter": "\u0001", "x": "y",
    }  # fmt: skip
    assert showing.load_table("ff", "semicolons").schema.options["csv.field-delimiter"] == ";"
    deltas = () if IS_HIVE_4 else ("deltas",)
    for name in ("binary_pairs", "odd", *deltas):
        with pytest.raises(TableNotFoundError):
            showing.load_table("ff", name)
        with pytest.raises(SchemaError, match="not a paimon table"):
            showing.create_table("ff", name, format_schema(FIELDS, {}, format_name="csv"))
    with pytest.raises(PaimonError, match=", ".join(["no Paimon table: binary_pairs, columns, csv_own", *deltas])):
        showing.drop_database("ff", cascade=True)
    assert showing.tables("ff") == shown
    showing.rename_table("ff", "csv_own", "ff", "renamed")
    moved = Path(showing.load_table("ff", "renamed").path)
    assert moved.name == "renamed"
    assert moved.exists()
    showing.drop_table("ff", "renamed")
    assert not moved.exists()
    assert "renamed" not in showing.tables("ff")


def test_a_catalog_without_format_tables(
    catalog: MetastoreCatalog, showing: MetastoreCatalog, options: dict[str, str]
) -> None:
    schema = format_schema(FIELDS, {}, format_name="csv")
    catalog.create_table("ff", "ours", schema)
    made_by_hive(catalog, "theirs")
    without = open_catalog(catalog.warehouse, {**options, "format-table.enabled": "false"})
    assert catalog.tables("ff") == ["ours"]
    assert showing.tables("ff") == ["ours", "theirs"]
    assert without.tables("ff") == []
    for name in ("ours", "theirs"):
        assert not without.table_exists("ff", name)
        with pytest.raises(TableNotFoundError):
            without.drop_table("ff", name)
        with pytest.raises(SchemaError, match="not a paimon table"):
            without.create_table("ff", name, create_schema(FIELDS))
    with pytest.raises(UnsupportedError, match="does not support format tables"):
        without.create_table("ff", "new", schema)
    with pytest.raises(PaimonError, match=r"no Paimon table: ours, theirs\."):
        without.drop_database("ff", cascade=True)
    assert showing.tables("ff") == ["ours", "theirs"]


def test_what_is_made_changed_and_dropped(
    catalog: MetastoreCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = format_schema(FIELDS, {}, format_name="orc", partition_keys=["d"], comment="a table")
    made = catalog.create_table("ff", "t", schema)
    assert is_format_table(made.schema)
    assert [(field.name, str(field.type), field.description) for field in made.schema.fields] == [
        ("k", "INT", None), ("v", "STRING", "of a column"), ("d", "DATE", "a day"),
    ]  # fmt: skip
    assert made.schema.comment == "a table"
    assert not Path(made.path, "schema").exists()
    for taken in (schema, create_schema(FIELDS)):
        with pytest.raises(SchemaError, match="already exists"):
            catalog.create_table("ff", "t", taken)
    with pytest.raises(UnsupportedError, match=r"Only data table support alter table: ff\.t is a format table"):
        alter_table(made, [SetOption("x", "y")])
    kept = {"metastore.partitioned-table": "true"}
    managed = schema.with_options({**schema.options, **kept})
    with pytest.raises(UnsupportedError, match="only available in a REST catalog"):
        catalog.create_table("ff", "kept", managed)
    monkeypatch.setattr("paimon_spark.metastore.hive.keeps_partitions", lambda _: False)  # as Java makes it
    theirs = catalog.create_table("ff", "kept", managed)
    with pytest.raises(UnsupportedError, match=r"UNSET TBLPROPERTIES \('metastore.partitioned-table'\) of Hive"):
        FormatTable.of(theirs)
    entry = metastore(catalog).table("ff", "kept")
    del entry.parameters["metastore.partitioned-table"]  # as Hive's own ALTER TABLE does
    metastore(catalog).client.call("alter_table", "ff", "kept", entry)
    assert FormatTable.of(catalog.load_table("ff", "kept")).partitions() == []
    catalog.drop_table("ff", "kept")
    assert not Path(made.path, "schema").exists()
    external = format_schema(FIELDS, {"path": f"{tmp_path}/there"}, format_name="json")
    outside = catalog.create_table("ff", "x", external)
    for key in ("csv.field-delimiter", "delimiter"):  # as Java's option, and by its older names
        catalog.create_table("ff", "c", format_schema(FIELDS, {key: ";"}, format_name="csv"))
        assert metastore(catalog).table("ff", "c").sd.serdeInfo.parameters == {"field.delim": ";"}
        assert catalog.load_table("ff", "c").schema.options["csv.field-delimiter"] == ";"
        catalog.drop_table("ff", "c")
    assert outside.path == f"{tmp_path}/there"
    Path(outside.path).mkdir(exist_ok=True)
    Path(outside.path, "part.json").touch()
    catalog.rename_table("ff", "x", "ff", "y")
    assert catalog.load_table("ff", "y").path == outside.path
    catalog.drop_table("ff", "y")
    assert Path(outside.path, "part.json").exists()
    catalog.drop_database("ff", cascade=True)
    assert not Path(made.path).exists()
    catalog.create_database("ff")


def test_a_repair_leaves_format_tables_alone(catalog: MetastoreCatalog) -> None:
    made = catalog.create_table("ff", "t", format_schema(FIELDS, {}, format_name="csv"))
    create_arrow_table(f"{made.path}", pa.schema([("k", "int32")]))
    with pytest.raises(PaimonError, match="not a paimon table in the Hive metastore"):
        catalog.repair("ff", "t")
    assert is_format_table(catalog.load_table("ff", "t").schema)


@pytest.mark.parametrize("kind", ["filesystem", "jdbc"])
def test_catalogs_that_keep_none(tmp_path: Path, kind: str) -> None:
    options = {"metastore": kind, **({"uri": f"jdbc:sqlite:{tmp_path}/catalog.db"} if kind == "jdbc" else {})}
    found = open_catalog(str(tmp_path / "wh"), options)
    found.create_database("d")
    with pytest.raises(UnsupportedError, match="currently does not support format tables"):
        found.create_table("d", "t", format_schema(FIELDS, {}, format_name="csv"))
    assert found.tables("d") == []
    assert not (tmp_path / "wh/d.db/t").exists()


@pytest.fixture
def java(catalog: MetastoreCatalog, options: dict[str, str]) -> Iterator[Any]:
    """Java's catalog over the same warehouse."""
    from tests.oracle.paimon_oracle import PaimonOracle

    try:
        bundle, jars = java_catalog()
        opened = PaimonOracle(
            catalog.warehouse, version="1.2.0", bundle=bundle, jars=jars, options={**options, "cache-enabled": "false"}
        )
    except (OSError, RuntimeError) as error:
        absent(f"Java's Hive catalog ({' '.join(str(error).split())[:200]})")
    with opened:
        yield opened


def stored(catalog: MetastoreCatalog, table: str) -> dict[str, Any]:
    """The fields of a table's record, but for names, times and what the metastore adds."""
    shown: dict[str, Any] = eval(repr(metastore(catalog).table("ff", table)), dict.fromkeys(PARTS, dict))
    for key in VARYING:
        assert shown.pop(key) > 0
    for key in OF_HIVE:
        shown["parameters"].pop(key, None)
    shown["sd"]["location"] = shown["sd"]["location"].replace(table, "<name>")
    shown["parameters"].pop("path", None)
    shown["tableName"] = "<name>"
    return shown


@pytest.mark.skipif(IS_HIVE_4, reason="Java's client calls get_table, which that server does not know")
def test_both_store_the_same_and_each_finds_those_of_the_other(
    java: Any, catalog: MetastoreCatalog, tmp_path: Path
) -> None:
    for name in ("csv", "json", "orc", "parquet"):
        given = {} if name == "csv" else {"path": f"{tmp_path}/{name}_java"}
        java.create(
            f"ff.{name}_java",
            [("k", "INT"), ("v", "STRING"), ("d", "DATE")],
            partition=["d"],
            options={"type": "format-table", "file.format": name, **given},
            comment="a table",
        )
        plain = [DataField(field.id, field.name, field.type) for field in FIELDS]
        if "path" in given:
            given = {"path": f"{tmp_path}/{name}_ours"}
        catalog.create_table(
            "ff", f"{name}_ours", format_schema(plain, given, format_name=name, partition_keys=["d"], comment="a table")
        )
        assert stored(catalog, f"{name}_ours") == stored(catalog, f"{name}_java"), name
        described = java.describe(f"ff.{name}_ours")
        assert (described["partition_keys"], described["options"]["file.format"]) == (["d"], name)
        assert FormatTable.of(catalog.load_table("ff", f"{name}_java")).format == name
    java.drop("ff.csv_ours")
    catalog.drop_table("ff", "csv_java")
    assert catalog.tables("ff") == [f"{name}_{who}" for name in ("json", "orc", "parquet") for who in ("java", "ours")]
