"""A small write of `open_table` does what it must, once: however many snapshots and files the table has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_spark
from paimon_spark.options import CoreOptions, Option
from paimon_spark.spec import avro_codec
from paimon_spark.spec.schema import TableSchema
from paimon_spark.storage import local_files
from paimon_spark.table.table import load_table

ROW = pa.table({"id": pa.array([1], pa.int64()), "name": ["a"]})


class Work:
    """What was asked of the local disk and of the decoders."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def counted(self, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, counted."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self.counts[what] += 1
            return function(*args, **kwargs)

        return call

    def listed(self, path: str) -> Iterator[tuple[str, int, bool, int]]:
        """A listing whose entries are counted."""
        for entry in _list_directory(path):
            self.counts["entries listed"] += 1
            yield entry

    def of(self, act: Callable[[], object]) -> Counter[str]:
        """What one call needs."""
        self.counts.clear()
        act()
        return Counter(self.counts)


_list_directory = local_files.list_directory


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Counts reads, entries of listings, and records that are decoded."""
    found = Work()
    monkeypatch.setattr(local_files, "read_file", found.counted("read", local_files.read_file))
    monkeypatch.setattr(local_files, "list_directory", found.listed)
    monkeypatch.setattr(avro_codec, "_decoded_records", found.counted("decoded", avro_codec._decoded_records))
    monkeypatch.setattr(TableSchema, "from_json", staticmethod(found.counted("schema", TableSchema.from_json)))
    monkeypatch.setattr(Option, "parse", found.counted("option", Option.parse))
    return found


def _table(tmp_path: Path, **options: Any) -> str:
    path = f"{tmp_path}/db.db/t"
    paimon_spark.create_table(path, ROW.schema, **options)
    return path


@pytest.mark.parametrize("keys", [(), ("id",)])
def test_an_append_does_the_same_however_many_snapshots_there_are(
    tmp_path: Path, work: Work, keys: Any, caplog: pytest.LogCaptureFixture
) -> None:
    never = {"compaction_min_file_num": 1000, "num_sorted_run_compaction_trigger": 1000, "manifest_merge_min_count": 4}
    path = _table(tmp_path, primary_keys=keys, bucket=1 if keys else -1, **never)

    def append() -> None:
        paimon_spark.open_table(path).append(ROW)

    for _ in range(14):
        append()
    few = max((work.of(append) for _ in range(4)), key=lambda each: each["read"])
    for _ in range(14):
        append()
    many = max((work.of(append) for _ in range(4)), key=lambda each: each["read"])
    assert many == few
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == []


@pytest.mark.parametrize("keys", [(), ("id",)])
def test_a_write_decodes_no_manifest_a_second_time(tmp_path: Path, work: Work, keys: Any) -> None:
    never = {"compaction_min_file_num": 1000, "num_sorted_run_compaction_trigger": 1000}
    path = _table(tmp_path, primary_keys=keys, bucket=1 if keys else -1, **never)
    table = paimon_spark.open_table(path)
    for _ in range(12):
        table.append(ROW)
    assert work.of(lambda: table.append(ROW))["decoded"] <= 1  # the manifest that it wrote itself


def test_what_is_unchanged_is_parsed_once_in_a_process(tmp_path: Path, work: Work) -> None:
    path = _table(tmp_path, compaction_min_file_num=1000)
    paimon_spark.open_table(path).append(ROW)
    found = work.of(lambda: paimon_spark.open_table(path).append(ROW))
    assert (found["schema"], found["option"]) == (0, 0)


def test_a_table_made_anew_at_the_same_path_has_its_own_schema(tmp_path: Path) -> None:
    import shutil

    path = _table(tmp_path)
    paimon_spark.open_table(path).append(ROW)
    shutil.rmtree(path)
    paimon_spark.create_table(path, pa.schema([("other", pa.int32())]))
    assert paimon_spark.open_table(path).schema.names == ["other"]
    assert load_table(path).snapshots.latest() is None


def test_a_value_of_an_option_is_parsed_once() -> None:
    options = CoreOptions({"bucket": "7", "compaction.min.file-num": "x"})
    assert (options.value("bucket"), options.value("bucket")) == (7, 7)
    for _ in range(2):
        with pytest.raises(paimon_spark.PaimonError, match=r"compaction\.min\.file-num|'x'"):
            options.value("compaction.min.file-num")
