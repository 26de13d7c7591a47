"""Many manifests are read a group at a time, so that an expiry holds a few of them and never all."""

from pathlib import Path

import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.spec.manifest import RecordedFile
from paimon_spark.table import manifest_store
from tests.support.commits import fake_file, make_table, message


@pytest.mark.parametrize(("most", "most_bytes", "largest"), [(3, 1 << 20, 3), (1024, 1, 1)])
def test_files_come_in_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, most_bytes: int, largest: int
) -> None:
    table = make_table(tmp_path / "t", bucket="-1")
    for number in range(7):
        commit(table, [message(table, fake_file(f"data-{number}.parquet"))])
    snapshots = [table.snapshots.get(number) for number in range(1, 8)]
    manifests = [table.manifests.manifests_of(snapshot.delta_list)[0] for snapshot in snapshots]
    manifests.insert(4, RecordedFile("manifest-that-is-gone", 1))
    decoded: list[int] = []
    decode = manifest_store.avro_codec.decode_manifest_files

    def counting(files: list[tuple[str, bytes]]) -> object:
        decoded.append(len(files))
        return decode(files)

    monkeypatch.setattr(manifest_store.avro_codec, "decode_manifest_files", counting)
    monkeypatch.setattr(manifest_store, "_FILES_AT_ONCE", most)
    monkeypatch.setattr(manifest_store, "_BYTES_AT_ONCE", most_bytes)
    found = table.manifests.files_of(manifests)
    first = next(found)
    assert first is not None
    assert [change.name for change in first] == ["data-0.parquet"]
    assert len(decoded) == 1
    rest = [None if part is None else [change.name for change in part] for part in found]
    assert rest == [*([f"data-{n}.parquet"] for n in (1, 2, 3)), None, *([f"data-{n}.parquet"] for n in (4, 5, 6))]
    assert sum(decoded) == 7
    assert max(decoded) == largest
