"""BLOB values that lie elsewhere: descriptors of files (``blob-descriptor-field``) and names of values (views)."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import CorruptTableError, DataError, PaimonError, UnsupportedError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.options import CoreOptions
from paimon_spark.read.blob_values import Values
from paimon_spark.read.row_views import find_view
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import ArrayType, BlobType, DataField, IntType
from paimon_spark.spec.predicate import Leaf, Predicate
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage.blob_descriptor import DescribedFiles, blob_view, descriptor, too_short, warehouse_of
from paimon_spark.storage.file_io import FileIO, LocalFileIO
from paimon_spark.table.table import create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.memory import arrow_peak
from tests.support.plans import plan_of

DATA_EVOLUTION = {"bucket": "-1", "row-tracking.enabled": "true", "data-evolution.enabled": "true"}
KEYED = {"bucket": "1", "write-only": "true"}
FIELDS = [DataField(0, "k", IntType(nullable=False)), DataField(1, "d", BlobType()), DataField(2, "v", IntType())]


def table(folder: Path, name: str, options: dict[str, str], fields: Sequence[DataField] = FIELDS) -> str:
    """Make a table in the database db of a warehouse."""
    keys = [] if "row-tracking.enabled" in options else ["k"]
    return create_table(str(folder / "wh" / "db.db" / name), create_schema(fields, keys, [], options)).path


def write(path: str, rows: Sequence[tuple[Any, ...]], **options: str) -> None:
    loaded = load_table(path, options=options)
    schema = to_arrow_schema(loaded.schema.fields)
    data = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    plan = plan_write(loaded, data_schema=schema, shuffled=True)
    commit(plan.table, [write_batches(plan, data.to_batches(), 0)])


def read(path: str, view: str | None = None, predicate: Predicate | None = None, **options: str) -> list[Any]:
    found = find_view(view)
    assert found is not None
    plan = plan_of(load_table(path, options=options), found, predicate=predicate)
    return [r for s in plan.splits for b in plan.read(plan.table, s, plan.fields, plan.residual) for r in b.to_pylist()]


def values(path: str, **options: Any) -> dict[int, Any]:
    return {row["k"]: row["d"] for row in read(path, **options)}


@pytest.fixture(params=[DATA_EVOLUTION, KEYED], ids=["evolves", "keyed"])
def kind(request: pytest.FixtureRequest) -> dict[str, str]:
    """Options of a kind of table."""
    options: dict[str, str] = request.param
    return options


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A file that lies in no warehouse."""
    path = tmp_path / "raw" / "file.bin"
    path.parent.mkdir()
    path.write_bytes(b"0123456789")
    return path


def test_described_values_are_read(tmp_path: Path, raw: Path, kind: dict[str, str]) -> None:
    path = table(tmp_path, "t", {**kind, "blob-descriptor-field": "d"})
    rows = [descriptor(f"file://{raw}", 2, 3), None, descriptor(str(raw), 4, -1), descriptor(f"file:{raw}", 10, 0)]
    write(path, [(k, value, k) for k, value in enumerate(rows)])
    given = {"blob-descriptor-paths": f"s3://x/y, {raw.parent}"}
    assert values(path, **given) == {0: b"234", 1: None, 2: b"456789", 3: b""}
    assert values(path, **{"blob-descriptor-paths": "*"}) == {0: b"234", 1: None, 2: b"456789", 3: b""}
    assert values(path, **{"blob-as-descriptor": "true"}) == dict(enumerate(rows))
    assert [r["k"] for r in read(path, predicate=Leaf("eq", "d", (b"234",)), **given)] == [0]
    assert [r["k"] for r in read(path, predicate=Leaf("is_null", "d"), **given)] == [1]
    if kind is KEYED:
        compact(load_table(path, options={"write-only": "false"}), full=True)
        assert values(path, **given)[0] == b"234"


def test_only_files_that_the_caller_allows_are_read(tmp_path: Path, raw: Path, kind: dict[str, str]) -> None:
    path = table(tmp_path, "t", {**kind, "blob-descriptor-field": "d", "blob-descriptor-paths": "*"})
    inside = tmp_path / "wh" / "files" / "x.bin"
    inside.parent.mkdir()
    inside.write_bytes(b"inside")
    write(path, [(1, descriptor(str(inside), 1, 2), 1)])
    assert values(path) == {1: b"ns"}
    locations = [
        str(raw),
        f"{tmp_path}/wh/../raw/file.bin",
        f"file://{tmp_path}/wh/db.db/../../raw/file.bin",
        "/etc/hosts",
    ]
    for uri in (*locations, "s3://b/wh/x"):
        write(path, [(2, descriptor(uri, 0, 1), 1)])
        with pytest.raises(UnsupportedError, match="'blob-descriptor-paths'"):
            values(path)
        with pytest.raises(UnsupportedError, match="'blob-descriptor-paths'"):
            values(path, **{"blob-descriptor-paths": f"{tmp_path}/ra"})
        if kind is DATA_EVOLUTION:
            break
    assert warehouse_of("/a/t") is None
    assert warehouse_of("s3://b/wh/db.db/t") == "s3://b/wh"


def test_links_and_pipes_lead_nowhere(tmp_path: Path, raw: Path) -> None:
    path = table(tmp_path, "t", {**KEYED, "blob-descriptor-field": "d"})
    warehouse = tmp_path / "wh"
    (warehouse / "inside").write_bytes(b"inside")
    (warehouse / "link").symlink_to(raw)
    (warehouse / "folder").symlink_to(raw.parent)
    (warehouse / "same").symlink_to("inside")
    os.mkfifo(warehouse / "pipe")
    write(path, [(1, descriptor(str(warehouse / "same"), 0, 2), 1)])
    assert values(path) == {1: b"in"}
    for name in ("link", "folder/file.bin"):
        write(path, [(1, descriptor(f"file://{warehouse}/{name}", 0, 2), 1)])
        with pytest.raises(UnsupportedError, match="'blob-descriptor-paths'"):
            values(path)
        assert values(path, **{"blob-descriptor-paths": str(raw.parent)}) == {1: b"01"}
    write(path, [(1, descriptor(str(warehouse / "pipe"), 0, 2), 1)])
    with pytest.raises(DataError, match="a device or a pipe"):
        values(path)


def test_values_of_a_row_that_are_too_much_are_not_read(tmp_path: Path) -> None:
    """A row of a few hundred bytes can name terabytes: an ARRAY of BLOBs of managed blob files."""
    huge = tmp_path / "wh" / "db.db" / "t" / "huge"
    huge.parent.mkdir(parents=True)
    with huge.open("wb") as file:
        file.truncate(1 << 30)

    class Files:
        open = staticmethod(DescribedFiles.of(str(huge.parent), LocalFileIO(), CoreOptions({})).open)
        too_short = staticmethod(too_short)

    with arrow_peak() as peak, pytest.raises(DataError, match="more than 2147483647 bytes together"):
        Values(Files()).values(pa.array([descriptor(str(huge), 0, -1)] * 3))
    assert peak.bytes < 1 << 20
    for offset, length in ((2**63 - 1, 1), (1, 2**63 - 1), (2**62, 2**62), (2**30 + 1, -1), (0, 2**30 + 1)):
        column = pa.array([descriptor(str(huge), offset, length)])
        assert len(Values(Files()).sizes(column)) == 1
        with pytest.raises(DataError, match="names more of it"):
            Values(Files()).values(column)


def test_a_table_does_not_say_how_its_own_warehouse_is_reached(tmp_path: Path) -> None:
    """Options ``blob-descriptor.*`` that a table has would send credentials to an endpoint of its writer's."""
    own = FileIO.for_path("s3://b/wh", {"s3.access-key": "ours"})
    evil = {"blob-descriptor.s3.endpoint": "http://elsewhere"}
    files = DescribedFiles.of("s3://b/wh/db.db/t", own, CoreOptions({**evil, "blob-descriptor-paths": "s3://photos"}))
    assert files._store("s3://b/wh/db.db/x") is own
    assert files._store("s3a://b/wh/x") is own
    assert files._store("s3://photos/x") is not own


def test_files_that_are_gone_or_too_short_are_reported(tmp_path: Path) -> None:
    path = table(tmp_path, "t", {**KEYED, "blob-descriptor-field": "d"})
    short = tmp_path / "wh" / "short"
    short.write_bytes(b"ab")
    for bad, text in ((descriptor(f"{short}x", 0, 1), "is not there"), (descriptor(str(short), 1, 2), "has 2 bytes")):
        write(path, [(1, bad, 1)])
        with pytest.raises(DataError, match=text):
            values(path)
    with pytest.raises(DataError, match="takes descriptors of blobs"):
        write(path, [(1, b"none", 1)])
    write(path, [(1, descriptor(str(short), 0, 1)[:-3], 1)])
    with pytest.raises(CorruptTableError):
        values(path)


def test_values_that_are_descriptors_are_copied(tmp_path: Path, raw: Path, kind: dict[str, str]) -> None:
    fields = [*FIELDS, DataField(3, "many", ArrayType(BlobType()))]
    path = table(tmp_path, "t", kind, fields)
    own, rest = descriptor(str(raw), 1, 4), descriptor(f"file:{raw}", 8, -1)
    rows = [(1, own, 1, [b"x", rest, None]), (2, b"plain", 2, None), (3, rest, 3, [])]
    with pytest.raises(UnsupportedError, match="'blob-descriptor-paths'"):
        write(path, rows)
    write(path, rows, **{"blob-descriptor-paths": str(raw.parent)})
    raw.unlink()
    assert values(path) == {1: b"1234", 2: b"plain", 3: b"89"}
    assert {row["k"]: row["many"] for row in read(path)} == {1: [b"x", b"89", None], 2: None, 3: []}
    # descriptors that a read of one table gives are values for another
    other = table(tmp_path, "other", KEYED if kind is DATA_EVOLUTION else DATA_EVOLUTION)
    write(other, [(r["k"], r["d"], 0) for r in read(path, **{"blob-as-descriptor": "true"})])
    assert values(other) == {1: b"1234", 2: b"plain", 3: b"89"}
    with pytest.raises(DataError, match="names a BLOB of another table"):
        write(other, [(1, blob_view("db.t", 1, 0), 1)])


def test_what_cannot_be_fetched_may_be_null(tmp_path: Path, raw: Path) -> None:
    path = table(tmp_path, "t", DATA_EVOLUTION, [*FIELDS, DataField(3, "many", ArrayType(BlobType()))])
    missing, failing_one = descriptor(f"{raw}x", 0, 1), descriptor(f"{raw.parent}/sub", 0, 1)
    given = {"blob-descriptor-paths": str(raw.parent)}
    for row in ((1, missing, 1, None), (1, None, 1, [missing])):
        with pytest.raises(DataError, match="is not there"):
            write(path, [row], **given)
    write(path, [(1, missing, 1, [b"x", missing])], **given, **{"blob-write-null-on-missing-file": "true"})
    assert read(path) == [{"k": 1, "d": None, "v": 1, "many": [b"x", None]}]
    failing = {**given, "blob-write-null-on-fetch-failure": "true"}
    with pytest.raises(DataError):
        write(path, [(2, missing, 1, None)], **failing)
    (raw.parent / "sub").mkdir()
    with pytest.raises(DataError, match="has 10 bytes"):
        write(path, [(2, descriptor(str(raw), 5, 100), 1, None)], **failing)
    write(path, [(2, failing_one, 2, None)], **failing)
    assert values(path) == {1: None, 2: None}
    keyed = table(tmp_path, "keyed", KEYED)
    with pytest.raises(DataError, match="is not there"):
        write(keyed, [(1, missing, 1)], **given, **{"blob-write-null-on-missing-file": "true"})


def test_views_are_resolved(tmp_path: Path, kind: dict[str, str]) -> None:
    source = table(tmp_path, "source", DATA_EVOLUTION)
    write(source, [(k, None if k == 2 else b"%d" % k * k, k) for k in range(5)])
    write(source, [(k, b"%d" % k * k, k) for k in range(5, 9)])
    path = table(tmp_path, "views", {**kind, "blob-view-field": "d"})
    named = [blob_view("db.source", 1, row) for row in (7, 0, 2, 7, 4)]
    write(path, [(k, name, k) for k, name in enumerate([*named, None])])
    wanted = {0: b"7" * 7, 1: b"", 2: None, 3: b"7" * 7, 4: b"4444", 5: None}
    assert values(path) == wanted
    assert values(path, **{"blob-view.resolve.enabled": "false"}) == {**dict(enumerate(named)), 5: None}
    assert [r["k"] for r in read(path, predicate=Leaf("eq", "d", (b"4444",)))] == [4]
    assert sorted(r["k"] for r in read(path, predicate=Leaf("is_null", "d"))) == [2, 5]
    locations = values(path, **{"blob-as-descriptor": "true"})
    again = table(tmp_path, "again", {**kind, "blob-descriptor-field": "d"})
    write(again, [(k, location, k) for k, location in locations.items()])
    assert values(again) == wanted
    # a view of a view
    if kind is DATA_EVOLUTION:
        deeper = table(tmp_path, "deeper", {**kind, "blob-view-field": "d"})
        write(deeper, [(1, blob_view("db.views", 1, 4), 1), (2, blob_view("db.views", 1, 2), 1)])
        assert values(deeper) == {1: b"4444", 2: None}
    with pytest.raises(DataError, match="takes names of BLOB values"):
        write(path, [(9, b"value", 9)])


def test_views_that_name_nothing_are_reported(tmp_path: Path) -> None:
    source = table(tmp_path, "source", DATA_EVOLUTION)
    write(source, [(1, b"x", 1)])
    path = table(tmp_path, "views", {**DATA_EVOLUTION, "blob-view-field": "d"})
    cases: list[tuple[bytes, type[PaimonError], str]] = [
        (blob_view("db.source", 1, 7), DataError, "no row with _ROW_ID 7"),
        (blob_view("db.source", 9, 0), DataError, "Cannot find blob fieldId 9"),
        (blob_view("db.gone", 1, 0), DataError, "There is no table db.gone"),
        (blob_view("source", 1, 0), DataError, "is no name of a table"),
        (blob_view("db.a/../source", 1, 0), DataError, "is no name of a table"),
        (blob_view("../db.source", 1, 0), DataError, "is no name of a table"),
        (blob_view("db.views", 1, 0), DataError, "in a circle"),
        (blob_view("db.source", 1, 0)[:-3], DataError, "is no BLOB view"),
    ]
    for bad, error, text in cases:
        alone = table(tmp_path, f"v{cases.index((bad, error, text))}", {**DATA_EVOLUTION, "blob-view-field": "d"})
        loop = path if text == "in a circle" else alone
        write(loop, [(1, bad, 1)])
        with pytest.raises(error, match=text):
            values(loop)
    keyed = table(tmp_path, "keyed", KEYED)
    write(keyed, [(1, b"x", 1)])
    write(
        alone := table(tmp_path, "w", {**DATA_EVOLUTION, "blob-view-field": "d"}), [(1, blob_view("db.keyed", 1, 0), 1)]
    )
    with pytest.raises(UnsupportedError, match="row tracking"):
        values(alone)


def test_rows_that_are_deleted_need_no_descriptors(tmp_path: Path) -> None:
    """A statement gives rows as a read gives them: with values."""
    path = table(tmp_path, "t", {**KEYED, "blob-descriptor-field": "d"})
    inside = tmp_path / "wh" / "x"
    inside.write_bytes(b"inside")
    write(path, [(k, descriptor(str(inside), k, 1), k) for k in range(3)])
    loaded = load_table(path)
    schema = pa.schema([*to_arrow_schema(loaded.schema.fields), pa.field("_VALUE_KIND", pa.int8())])
    rows = pa.Table.from_pylist([{"k": 1, "d": b"n", "v": 1, "_VALUE_KIND": 3}], schema)
    plan = plan_write(loaded, data_schema=schema, shuffled=True)
    commit(loaded, [write_batches(plan, rows.to_batches(), 0)])
    assert values(path) == {0: b"i", 2: b"s"}
    assert {r["d"] for r in read(path, "audit_log") if r["rowkind"] == "-D"} <= {None}


def test_large_values_are_copied_in_parts(tmp_path: Path) -> None:
    """No value that is described is held whole, neither for a blob file nor for a managed blob file."""
    raw, size = tmp_path / "wh" / "raw", 48 << 20
    raw.parent.mkdir()
    with raw.open("wb") as file:
        file.truncate(size)
    for name, options in (("evolves", DATA_EVOLUTION), ("keyed", KEYED)):
        path = table(tmp_path, name, options)
        tracemalloc.start()
        with arrow_peak() as peak:
            write(path, [(k, descriptor(str(raw), 0, size), k) for k in range(2)])
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak.bytes + most < size * 3 // 4
        plan = plan_of(load_table(path, options={"blob-as-descriptor": "true"}), columns=["d"])
        batch = pa.Table.from_batches(plan.read(plan.table, plan.splits[0], plan.fields, None))
        assert {value[-8:] for value in batch.column(0).to_pylist()} == {size.to_bytes(8, "little")}


def test_blob_files_count_for_splits_where_they_are_read(tmp_path: Path) -> None:
    path = table(
        tmp_path, "t", {**DATA_EVOLUTION, "source.split.target-size": "100 kb", "source.split.open-file-cost": "1 kb"}
    )
    for k in range(4):
        write(path, [(k, bytes(80_000), k)])

    def splits(**options: str) -> int:
        return len(plan_of(load_table(path, options=options)).splits)

    assert splits() == 4
    assert splits(**{"blob-as-descriptor": "true"}) == 1
    assert splits(**{"blob-as-descriptor": "true", "blob.split-by-file-size": "true"}) == 4
    assert splits(**{"blob.split-by-file-size": "false"}) == 1


def test_files_may_lie_in_another_store(tmp_path: Path) -> None:
    """Options ``blob-descriptor.*`` are those of the stores of files, without the prefix."""
    FileIO.for_path("memory://raw/x").write_bytes("memory://raw/x", b"memory")
    path = table(tmp_path, "t", {**KEYED, "blob-descriptor-field": "d", "blob-descriptor.fs.x": "1"})
    write(path, [(1, descriptor("memory://raw/x", 1, 3), 1)])
    with pytest.raises(UnsupportedError, match="'blob-descriptor-paths'"):
        values(path)
    loaded = load_table(path, options={"blob-descriptor-paths": "memory://raw"})
    files = DescribedFiles.of(loaded.path, loaded.file_io, loaded.options)
    assert (files.options, files.separate) == ({"fs.x": "1"}, True)
    loaded = loaded.without_options(["blob-descriptor.fs.x"])
    files = DescribedFiles.of(loaded.path, loaded.file_io, loaded.options)
    assert b"".join(files.parts(descriptor("memory://raw/x", 1, 3))) == b"emo"


def test_views_have_javas_bytes() -> None:
    """Java: ``BlobViewStruct``: version, "BLOBVIEW", the table, the ids, all little-endian."""
    wanted = b"\x01" + b"WEIVBOLB" + b"\x04\0\0\0db.t" + b"\x07\0\0\0" + b"\x09" + b"\0" * 7
    assert blob_view("db.t", 7, 9) == wanted
