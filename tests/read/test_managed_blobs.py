"""BLOB columns of tables with primary keys, as Java 2.1 keeps them: descriptors in data files, values alongside them.

Java 1.4.2 has no such tables. They are made here: rows with descriptors in columns of bytes, whose schema is changed
then; managed blob files are blob files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CorruptTableError
from paimon_spark.maintain.files.orphan_files import remove_files_before
from paimon_spark.read import blob_values
from paimon_spark.read.row_views import find_view
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import ArrayType, BlobType, DataField, IntType, MapType, VarBinaryType, VarCharType
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage.blob_descriptor import descriptor
from paimon_spark.storage.blob_format import HEAD, BlobReader
from paimon_spark.storage.formats import create_data_file
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of
from tests.support.streams import batches_of

BYTES = VarBinaryType(VarBinaryType.MAX)
COLUMNS = {"pic": BYTES, "many": ArrayType(BYTES), "named": MapType(VarCharType(10), BYTES)}
Row = tuple[int, Any, Any, Any]


class Media:
    """A table and its managed blob files."""

    def __init__(self, folder: Path, **options: str) -> None:
        fields = [DataField(0, "k", IntType(nullable=False))]
        fields += [DataField(i + 1, name, kind) for i, (name, kind) in enumerate(COLUMNS.items())]
        schema = create_schema(fields, ["k"], [], {"bucket": "1", "write-only": "true", **options})
        self.path = create_table(str(folder / "t"), schema).path
        self.blob_files = 0

    def blob_file(self, *values: bytes) -> list[bytes]:
        """Write a managed blob file; return the descriptors of its values."""
        table, field = load_table(self.path), DataField(0, "blob", BlobType())
        path = f"{self.path}/bucket-0/data-{self.blob_files}.managed.blob"
        self.blob_files += 1
        writer = create_data_file(table.file_io, path, "blob", [field], compression="none", zstd_level=1, options={})
        writer.write(pa.table([pa.array(values, pa.binary())], schema=to_arrow_schema([field])))
        writer.close()
        reader = BlobReader(table.file_io, path, None)
        locations = zip(reader.offsets.tolist(), values, strict=True)
        return [descriptor(f"file:{path}", offset + HEAD, len(value)) for offset, value in locations]

    def write(self, *rows: Row, kinds: tuple[int, ...] = ()) -> None:
        """Write rows with descriptors, while the columns are of bytes."""
        table = load_table(self.path)
        schema = to_arrow_schema(table.schema.fields)
        data = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
        data = data.append_column("_VALUE_KIND", pa.array(kinds or (0,) * len(rows), pa.int8()))
        plan = plan_write(table, data_schema=data.schema, shuffled=True)
        commit(plan.table, [write_batches(plan, data.to_batches(), 0)])

    def finish(self) -> FileStoreTable:
        """Make the columns BLOB."""
        path = Path(self.path) / "schema" / "schema-0"
        path.write_text(path.read_text().replace('"BYTES"', '"BLOB"'))
        return load_table(self.path)


def read(table: FileStoreTable | str, view: str | None = None, **options: str) -> list[dict[str, Any]]:
    path = table if isinstance(table, str) else table.path
    loaded, found = load_table(path, options=options), find_view(view)
    assert found is not None
    plan = plan_of(loaded, found)
    return [r for s in plan.splits for b in plan.read(plan.table, s, plan.fields, plan.residual) for r in b.to_pylist()]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_values_come_from_blob_files(tmp_path: Path, file_format: str) -> None:
    media = Media(tmp_path, **{"file.format": file_format})
    big = b"z" * 30_000
    one, two, empty, large = media.blob_file(b"one", b"two", b"", big)
    media.write((1, one, [one, None, two], [("a", two), ("b", None)]), (2, None, None, None), (3, empty, [], []))
    (new,) = media.blob_file(b"new")
    media.write((1, new, [two], [("c", one)]), (2, None, None, None), (4, large, [large] * 9, None), kinds=(0, 3, 0))
    table = media.finish()
    rows = sorted(read(table), key=lambda row: row["k"])
    assert rows == [
        {"k": 1, "pic": b"new", "many": [b"two"], "named": [("c", b"one")]},
        {"k": 3, "pic": b"", "many": [], "named": []},
        {"k": 4, "pic": big, "many": [big] * 9, "named": None},
    ]
    described = {row["k"]: row for row in read(table, **{"blob-as-descriptor": "true"})}
    assert described[1] == {"k": 1, "pic": new, "many": [two], "named": [("c", one)]}
    log = sorted(
        (row["k"], row["rowkind"], row["pic"])
        for row in read(table, "audit_log", **{"incremental-between": "0,1"})
        if row["pic"]
    )
    assert log == [(1, "+I", b"one")]
    binlog = [row["pic"] for row in read(table, "binlog", **{"incremental-between": "0,1"}) if row["k"] == [1]]
    assert binlog == [[b"one"]]
    given = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
    streamed = [row["pic"] for batch in batches_of(table.path, given) for row in batch.rows if row["k"] == 1]
    assert streamed == [b"one", b"new"]
    remove_files_before(table, 2**62)
    assert len(list(Path(table.path).rglob("*.managed.blob"))) == 2


def test_batches_are_cut_by_the_bytes_of_their_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_values, "DEFAULT_BATCH_BYTES", 1_000_000)
    media = Media(tmp_path)
    (value,) = media.blob_file(b"x" * 100_000)
    media.write(*((k, value, [value, value], None) for k in range(40)))
    plan = plan_of(media.finish())
    sizes = [b.nbytes for split in plan.splits for b in plan.read(plan.table, split, plan.fields, None)]
    assert sum(sizes) > 12_000_000
    assert max(sizes) < 1_200_000


def other_file(media: Media, tmp_path: Path) -> bytes:
    (tmp_path / "secret.managed.blob").write_bytes(b"secret")
    return descriptor(str(tmp_path / "secret.managed.blob"), 0, 6)


DAMAGES: dict[str, Callable[[Media, Path], bytes]] = {
    "another directory": other_file,
    "a way out": lambda media, _: descriptor(f"{media.path}/bucket-0/../../secret.managed.blob", 0, 6),
    "no managed blob file": lambda media, _: descriptor(f"{media.path}/schema/schema-0", 0, 6),
    "another store": lambda media, _: descriptor("s3://t/bucket-0/data-0.managed.blob", 0, 6),
    "too much": lambda media, _: descriptor(f"{media.path}/bucket-0/data-0.managed.blob", 4, 1 << 40),
    "too large": lambda media, _: descriptor(f"{media.path}/bucket-0/data-0.managed.blob", 2**62, 2**62),
    "below zero": lambda media, _: descriptor(f"{media.path}/bucket-0/data-0.managed.blob", -1, 6),
    "short": lambda media, _: b"\x02abc",
    "no descriptor": lambda media, _: b"\x02" * 40,
    "gone": lambda media, _: descriptor(f"{media.path}/bucket-0/data-9.managed.blob", 4, 3),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_only_blob_files_of_the_table_are_opened(tmp_path: Path, damage: str) -> None:
    media = Media(tmp_path)
    media.blob_file(b"value")
    media.write((1, DAMAGES[damage](media, tmp_path), None, None))
    table = media.finish()
    with pytest.raises(CorruptTableError):
        read(table)
    assert len(read(table, **{"blob-as-descriptor": "true"})) == 1
