"""Java and we write Iceberg metadata in turn, and alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pyroaring
import pytest
from pyiceberg.table import StaticTable

import paimon_spark
from paimon_spark.arrow import ArrowTable
from tests.support.iceberg_rest_server import IcebergRestServer

pytestmark = pytest.mark.oracle

SHARED = {"metadata.iceberg.storage": "table-location"}
COLUMNS = [
    ("k", "INT NOT NULL"),
    ("v", "STRING"),
    ("p", "STRING NOT NULL"),
    ("n", "ARRAY<ROW<a INT, m MAP<STRING, BIGINT>>>"),
]
NESTED = [{"a": 1, "m": [("x", 5)]}]


def java_table(oracle: Any, **given: Any) -> ArrowTable:
    name = oracle.fresh_name("iceberg")
    oracle.create(name, COLUMNS, **{**given, "options": {**SHARED, **given.get("options", {})}})
    return paimon_spark.open_table(oracle.location(name).removeprefix("file:"))


def current(table: ArrowTable) -> Path:
    directory = Path(table.path) / "metadata"
    return directory / f"v{(directory / 'version-hint.text').read_text()}.metadata.json"


def seen(table: ArrowTable) -> list[tuple[Any, ...]]:
    found = StaticTable.from_metadata(str(current(table))).scan().to_arrow().to_pylist()
    return sorted(((row["k"], row["v"], row["p"]) for row in found), key=repr)


def ours(table: ArrowTable) -> list[tuple[Any, ...]]:
    found = paimon_spark.open_table(table.path).scan().to_arrow().to_pylist()
    return sorted(((row["k"], row["v"], row["p"]) for row in found), key=repr)


def row(k: int, v: str, p: str = "x") -> dict[str, Any]:
    return {"k": k, "v": v, "p": p, "n": NESTED}


def test_java_and_we_append_and_delete_in_turn(oracle: Any) -> None:
    table = java_table(oracle, partition=["p"], options={"bucket": "-1"})
    for number in range(0, 6, 2):
        oracle.write(table.path, [(number, "java", "ab"[number % 4 // 2], NESTED)])
        assert seen(table) == ours(table)
        table.append([row(number + 1, "we", "ab"[number % 4 // 2])])
        assert seen(table) == ours(table)
        assert len(ours(table)) == number + 2
    oracle.write(table.path, [(90, "java", "a", NESTED)], overwrite={"p": "a"})
    assert seen(table) == ours(table)
    table.overwrite([row(91, "we", "b")], where="p = 'b'")
    assert seen(table) == ours(table) == [(90, "java", "a"), (91, "we", "b")]
    oracle.write(table.path, [(92, "java", "b", NESTED)])
    assert seen(table) == ours(table)
    uuids = {json.loads(path.read_text())["table-uuid"] for path in (Path(table.path) / "metadata").glob("v*.json")}
    assert len(uuids) == 1
    snapshots = json.loads(current(table).read_text())["snapshots"]
    assert [each["snapshot-id"] for each in snapshots] == list(range(1, 10)), "neither made it anew"


def test_java_and_we_compact_in_turn(oracle: Any) -> None:
    table = java_table(oracle, pk=["k"], options={"bucket": "1", "write-only": "true"})
    for number in range(4):
        oracle.write(table.path, [(number, "java", "x", NESTED), (9, f"java {number}", "x", NESTED)])
        if number % 2:
            oracle.compact(table.path, options={"write-only": "false"})
            assert seen(table) == ours(table)
        table.append([row(number + 10, "we"), row(9, f"we {number}")])
        table.compact()
        assert seen(table) == ours(table)
    assert (9, "we 3", "x") in ours(table)
    oracle.write(table.path, [(1, "last", "x", NESTED)])
    oracle.compact(table.path, options={"write-only": "false"})
    assert seen(table) == ours(table)


def plain(value: Any, root: str) -> Any:
    """Metadata without what no two tables have in common: random names, times, and what only Java 2.1 writes."""
    if isinstance(value, dict):
        return {key: plain(each, root) for key, each in value.items() if key not in PASSED_OVER}
    if isinstance(value, list):
        return [plain(each, root) for each in value]
    if isinstance(value, str):
        return "path" if root in value or value.endswith(".avro") else value
    return value


PASSED_OVER = {
    "table-uuid",
    "last-updated-ms",
    "timestamp-ms",
    "summary",
    "location",
    "parent-snapshot-id",
    "properties",
}
DELETED = 2
LENGTHS = {"manifest_length", "file_size_in_bytes"}


def records(table: ArrowTable) -> tuple[list[Any], list[Any]]:
    """The Avro schemas and the records of the current snapshot's manifest list and manifests."""
    root = table.path
    manifest_list = json.loads(current(table).read_text())["snapshots"][-1]["manifest-list"]
    schemas, found = [], []
    paths = [manifest_list.removeprefix("file:")]
    while paths:
        with open(paths.pop(0), "rb") as file:
            reader = fastavro.reader(file)
            schemas.append(json.loads(reader.metadata["avro.schema"]))
            rows = list(reader)
        paths += [each["manifest_path"].removeprefix("file:") for each in rows if "manifest_path" in each]
        for each in rows:
            if each.get("status") == DELETED:
                del each["snapshot_id"]  # of the snapshot that deletes it, as in Java 2.1; Java 1.4 keeps the other one
        found.append(sorted((without(plain(each, root), LENGTHS) for each in rows), key=repr))
    return schemas, sorted(found, key=repr)


def without(value: Any, keys: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: without(each, keys) for key, each in value.items() if key not in keys}
    return value


@pytest.mark.parametrize("partition", [[], ["p"]])
def test_equal_histories_have_equal_metadata(oracle: Any, partition: list[str]) -> None:
    theirs, own = (java_table(oracle, partition=partition, options={"bucket": "-1"}) for _ in range(2))
    for k, v, p in [(1, "a", "x"), (2, None, "x"), (3, "c" * 40, "y")]:
        oracle.write(theirs.path, [(k, v, p, NESTED)])
        own.append([row(k, v, p)])  # type: ignore[arg-type]
    for table in (theirs, own):
        oracle.alter(f"iceberg.{Path(table.path).name}", ("add", "more", "DECIMAL(10, 2)"), ("rename", "v", "w"))
    oracle.write(theirs.path, [(4, "d", "x", NESTED, None)], overwrite={"p": "x"} if partition else {})
    again = paimon_spark.open_table(own.path)
    again.overwrite([{"k": 4, "w": "d", "p": "x", "n": NESTED}], **({"where": "p = 'x'"} if partition else {}))
    java, we = (json.loads(current(table).read_text()) for table in (theirs, own))
    assert plain(we, own.path) == plain(java, theirs.path)
    assert {each["summary"]["operation"] for each in we["snapshots"]} == {"append", "overwrite"}
    java_schemas, java_records = records(theirs)
    our_schemas, our_records = records(own)
    assert our_records == java_records
    assert our_schemas == java_schemas


def test_version_3_with_deletion_vectors_in_turn(oracle: Any) -> None:
    wide = {"metadata.iceberg.format-version": "3", "deletion-vectors.enabled": "true", "bucket": "-1"}
    table = java_table(oracle, options={**wide, "deletion-vectors.bitmap64": "true"})
    oracle.write(table.path, [(number, "java", "x", NESTED) for number in range(6)])
    table.delete("k = 1")
    oracle.delete_where(table.path, lambda found: found["k"] == 2)
    assert [each[0] for each in ours(table)] == [0, 3, 4, 5]
    table.append([row(7, "we")])
    assert deleted(table) == {1, 2}
    oracle.write(table.path, [(8, "java", "x", NESTED)])
    table.delete("k = 8")
    assert deleted(table) == {1, 2, 8}
    assert [each[0] for each in oracle.rows(table.path)] == [0, 3, 4, 5, 7]


def deleted(table: ArrowTable) -> set[int]:
    """The keys that the deletion vectors of the current snapshot delete."""
    manifest_list = json.loads(current(table).read_text())["snapshots"][-1]["manifest-list"]
    found = set[int]()
    for manifest in read_avro(manifest_list):
        for entry in read_avro(manifest["manifest_path"]) if manifest["content"] else ():
            file = entry["data_file"]
            data = Path(file["file_path"].removeprefix("file:")).read_bytes()[file["content_offset"] :]
            positions = pyroaring.BitMap64.deserialize(data[8 : file["content_size_in_bytes"] - 4])
            keys = pq.read_table(file["referenced_data_file"].removeprefix("file:"))["k"]
            assert len(positions) == file["record_count"]
            found |= {keys[position].as_py() for position in positions}
    return found


def read_avro(path: str) -> list[Any]:
    with open(path.removeprefix("file:"), "rb") as file:
        return list(fastavro.reader(file))


def test_java_goes_on_that_does_not_know_the_rest_catalog(oracle: Any, iceberg_rest: IcebergRestServer) -> None:
    """Java's committer is in a module of its own, without which it writes the metadata, and the catalog waits."""
    options = {"metadata.iceberg.storage": "rest-catalog", "metadata.iceberg.rest.uri": iceberg_rest.uri}
    table = java_table(oracle, partition=["p"], options={"bucket": "-1", **options})

    def there() -> list[int]:
        found = iceberg_rest.table(Path(table.path).name, "iceberg")
        assert found.current_snapshot().snapshot_id == len(found.snapshots())
        return sorted(found.scan().to_arrow()["k"].to_pylist())

    oracle.write(table.path, [(1, "java", "x", NESTED)])
    table.append([row(2, "we")])
    assert there() == [1, 2]
    for k in (3, 4):
        oracle.write(table.path, [(k, "java", "y", NESTED)])
    assert there() == [1, 2]
    table.append([row(5, "we", "y")])
    assert there() == [1, 2, 3, 4, 5]
    assert [each[0] for each in oracle.rows(table.path)] == there()


def test_java_goes_on_where_our_metadata_is_missing_and_we_where_its_is(oracle: Any) -> None:
    table = java_table(oracle, options={"bucket": "-1", "metadata.iceberg.storage": "hadoop-catalog"})
    directory = Path(table.path).parents[1] / "iceberg" / "iceberg" / Path(table.path).name / "metadata"

    def latest() -> list[int]:
        path = directory / f"v{(directory / 'version-hint.text').read_text()}.metadata.json"
        return sorted(StaticTable.from_metadata(str(path)).scan().to_arrow()["k"].to_pylist())

    table.append([row(1, "we")])
    assert latest() == [1]
    next(directory.glob("v1.*")).unlink()
    oracle.write(table.path, [(2, "java", "x", NESTED)])
    assert latest() == [1, 2]
    next(directory.glob("v2.*")).write_bytes(b"{")
    table.append([row(3, "we")])
    assert latest() == [1, 2, 3]
    oracle.rollback(f"iceberg.{Path(table.path).name}", snapshot=2)
    table.append([row(4, "we")])
    assert latest() == [1, 2, 4]
    oracle.write(table.path, [(5, "java", "x", NESTED)])
    assert latest() == [1, 2, 4, 5]
