"""What a load of a system table reads, by its path: of a table and of a warehouse, with columns and a filter."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.errors import SchemaMismatchError, TableNotFoundError
from paimon_spark.spark.source.data_source import PaimonDataSource
from paimon_spark.table.snapshot_store import SnapshotStore
from paimon_spark.table.system.registry import GLOBAL_TABLES, SYSTEM_TABLES


@pytest.fixture(scope="module")
def warehouse(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("load") / "wh"
    shutil.copytree(golden / "system_tables" / "table", path / "db.db" / "t")
    shutil.copytree(golden / "append_partitioned_plain" / "table", path / "other.db" / "days")
    return path


def load(path: Path | str, **options: str) -> pa.Table:
    """As Spark does it: the schema, then the reader, then its partitions in tasks."""
    source = PaimonDataSource({"path": str(path), **options})
    reader = source.reader(source.schema())
    partitions = list(reader.partitions())
    task = pickle.loads(pickle.dumps(reader))
    batches = [batch for each in partitions for batch in task.read(pickle.loads(pickle.dumps(each)))]
    return pa.Table.from_batches(batches) if batches else pa.table({})


@pytest.mark.parametrize(
    ("name", "options"), [("db.db/t$files", {}), ("db.db/t", {}), ("other.db/days", {"filter": "dt > '1970-01-01'"})]
)
def test_columns_are_left_out_where_an_engine_says_so(warehouse: Path, name: str, options: dict[str, str]) -> None:
    """Sail does, by the reader's `pruneColumns`, and wants these columns alone, in its order."""
    source = PaimonDataSource({"path": f"{warehouse}/{name}", **options})
    whole = load(f"{warehouse}/{name}", **options)
    assert whole.num_rows
    for columns in (whole.schema.names[:1], whole.schema.names[1::-1], []):
        reader = source.reader(source.schema())
        reader.pruneColumns(pa.schema([whole.schema.field(column) for column in columns]))  # type: ignore[attr-defined]
        task = pickle.loads(pickle.dumps(reader))
        batches = [batch for each in reader.partitions() for batch in task.read(each)]
        assert sum(batch.num_rows for batch in batches) == whole.num_rows
        assert all(batch.schema.names == columns for batch in batches)
        if columns:
            assert pa.Table.from_batches(batches).to_pylist() == whole.select(columns).to_pylist()


@pytest.mark.parametrize("name", SYSTEM_TABLES)
def test_system_tables_of_a_table(warehouse: Path, name: str) -> None:
    source = PaimonDataSource({"path": f"{warehouse}/db.db/t${name}"})
    assert source.schema().names == [field.name for field in SYSTEM_TABLES[name].fields]
    rows = load(f"{warehouse}/db.db/t${name}")
    assert rows.num_rows == 0 or rows.schema.names == source.schema().names


def test_system_tables_of_a_warehouse(warehouse: Path) -> None:
    tables = load(warehouse / "sys.db" / "tables").to_pylist()
    assert [(row["database_name"], row["table_name"], row["primary_key"]) for row in tables] == [
        ("db", "t", True),
        ("other", "days", False),
    ]
    for name in GLOBAL_TABLES:
        assert load(f"{warehouse}/sys.db/{name.upper()}/").schema.names == [f.name for f in GLOBAL_TABLES[name].fields]
    options = load(warehouse / "sys.db" / "all_table_options", filter="key = 'bucket'", columns="table_name, value")
    assert options.to_pylist() == [{"table_name": "t", "value": "2"}, {"table_name": "days", "value": "-1"}]
    files = sum(load(warehouse / "sys.db" / "partitions")["file_count"].to_pylist())
    of_tables = (load(f"{warehouse}/{table}$files") for table in ("db.db/t", "other.db/days"))
    assert files == sum(rows.num_rows for rows in of_tables)


def test_rows_of_a_table_by_its_system_names(warehouse: Path) -> None:
    assert load(warehouse / "db.db" / "t").num_rows == 71
    assert load(f"{warehouse}/db.db/t$ro").num_rows == 70
    assert load(f"{warehouse}/db.db/t$FILES", columns="bucket, level", filter="record_count > 10").schema.names == [
        "bucket",
        "level",
    ]


def test_what_is_not_there(warehouse: Path) -> None:
    for path in ("sys.db/nothing", "db.db/tables", "db.db/t$nothing", "db.db/none$files"):
        with pytest.raises(TableNotFoundError):
            load(warehouse / path)
    source = PaimonDataSource({"path": f"{warehouse}/sys.db/tables"})
    other = PaimonDataSource({"path": f"{warehouse}/sys.db/partitions"}).schema()
    with pytest.raises(SchemaMismatchError):
        source.reader(other)


def test_a_read_is_planned_on_one_look_at_the_latest_snapshot(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    latest = SnapshotStore.latest
    monkeypatch.setattr(SnapshotStore, "latest", lambda store: looks.append(store) or latest(store))
    for name in ("t", "t$audit_log", "t$ro"):
        source = PaimonDataSource({"path": f"{warehouse}/db.db/{name}"})
        schema = source.schema()
        looks.clear()
        source.reader(schema)
        assert len(looks) == 1
