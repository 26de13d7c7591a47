"""Tables with Iceberg metadata, and what pyiceberg reads of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from gcsfs.core import GCSFileSystem
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.table import StaticTable

import paimon_spark
from paimon_spark.arrow import ArrowTable
from paimon_spark.storage.hdfs import open_hdfs
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.store_server import StoreServer

SHARED = {"metadata.iceberg.storage": "table-location"}
SCHEMA = pa.schema([pa.field("k", pa.int32(), False), ("v", pa.string()), pa.field("p", pa.string(), False)])


def new_table(tmp_path: Path, schema: pa.Schema = SCHEMA, **options: Any) -> ArrowTable:
    return paimon_spark.create_table("d.t", schema, catalog=str(tmp_path / "wh"), **{**SHARED, **options})


def metadata_path(table: ArrowTable) -> Path:
    directory = Path(table.path) / "metadata"
    return directory / f"v{(directory / 'version-hint.text').read_text()}.metadata.json"


def iceberg(table: ArrowTable) -> StaticTable:
    return StaticTable.from_metadata(str(metadata_path(table)))


def rows(found: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def assert_same(table: ArrowTable) -> list[tuple[Any, ...]]:
    """Check that readers of Iceberg see the rows of the table, and that every file in the metadata is needed."""
    ours = rows(table.scan().to_arrow())
    theirs = iceberg(table)
    assert rows(theirs.scan().to_arrow()) == ours
    assert theirs.current_snapshot().snapshot_id == table.snapshots()["snapshot_id"][-1].as_py()
    return ours


def row(k: int, v: str | None, p: str = "x") -> dict[str, Any]:
    return {"k": k, "v": v, "p": p}


def avro_files(table: ArrowTable) -> set[str]:
    return {path.name for path in (Path(table.path) / "metadata").glob("*.avro")}


def named_files(table: ArrowTable) -> set[str]:
    """Manifest lists and manifests of all snapshots that the metadata has."""
    found = iceberg(table)
    lists = {Path(each.manifest_list).name for each in found.snapshots()}
    return lists | {Path(m.manifest_path).name for each in found.snapshots() for m in each.manifests(found.io)}


def live_entries(table: ArrowTable) -> list[Any]:
    found = iceberg(table)
    return [entry for m in found.current_snapshot().manifests(found.io) for entry in m.fetch_manifest_entry(found.io)]


def store_table(table: ArrowTable) -> FileStoreTable:
    return load_table(table.path)


class StoreFileIO(FsspecFileIO):
    """pyiceberg's way to HDFS without a JVM, and to a server of GCS, which gcsfs would ask for more by gRPC."""

    def __init__(self, properties: dict[str, str]) -> None:
        super().__init__(properties)
        self._scheme_to_fs["hdfs"] = lambda given: open_hdfs(given["url"], {})
        self._scheme_to_fs["gs"] = lambda given: GCSFileSystem("p", token="anon", endpoint_url=given["url"])


def store_properties(server: StoreServer) -> dict[str, str]:
    """What pyiceberg needs to reach a store."""
    given = server.options
    if server.root.startswith("s3"):
        return {
            "s3.endpoint": server.url,
            "s3.access-key-id": given["s3.access-key"],
            "s3.secret-access-key": given["s3.secret-key"],
            "s3.region": given["s3.region"],
        }
    if server.root.startswith(("gs", "hdfs")):
        return {"url": server.url, "py-io-impl": f"{__name__}.{StoreFileIO.__name__}"}
    return {
        "adls.connection-string": given["fs.connection_string"],
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
    }
