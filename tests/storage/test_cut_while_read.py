"""A file that is cut while it is read, at every read: the same rows or an error, never fewer rows or shorter values."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.errors import PaimonError
from paimon_spark.maintain.migration import bring
from paimon_spark.read.split_read import read_split
from paimon_spark.spec.predicate import Leaf, Predicate
from paimon_spark.storage.blob_descriptor import DescribedFiles, descriptor
from paimon_spark.storage.file_io import FileIO, LocalFileIO
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.damage import make_table
from tests.support.plans import plan_of
from tests.support.seeds import chance


class Cut:
    """Cuts the file that the read of a number is of."""

    def __init__(self, at: int, part: float, suffix: str = "") -> None:
        self.at, self.part, self.suffix = at, part, suffix
        self.reads = 0
        self.whole: tuple[str, bytes] | None = None

    def before_read(self, path: str) -> None:
        if self.reads == self.at:
            self.whole = path, Path(path).read_bytes()
            os.truncate(path, int(len(self.whole[1]) * self.part))
        self.reads += 1

    def undo(self) -> None:
        if self.whole is not None:
            Path(self.whole[0]).write_bytes(self.whole[1])


class CutFile:
    """An open file of a store, as fsspec gives them: what is behind its end is not there, without an error."""

    closed = False

    def __init__(self, path: str, cut: Cut) -> None:
        self._file, self._path, self._cut = open(path, "rb", buffering=0), path, cut  # noqa: SIM115
        self.seek, self.tell = self._file.seek, self._file.tell
        self.readable = self.seekable = lambda: True

    def read(self, size: int = -1) -> bytes:
        self._cut.before_read(self._path)
        return self._file.read(size)

    def close(self) -> None:
        self._file.close()
        self.closed = True


class CuttingIO(LocalFileIO):
    """A local disk whose data files are cut."""

    cut: Cut | None = None

    def open_input(self, path: str, size: int | None = None) -> pa.NativeFile:
        if self.cut is None or not Path(path).name.startswith("data-"):
            return super().open_input(path, size)
        return pa.PythonFile(CutFile(path, self.cut), mode="r")

    def read_bytes(self, path: str) -> bytes:
        if self.cut is not None and Path(path).name.startswith("data-"):
            self.cut.before_read(path)
        return super().read_bytes(path)


def rows(table: FileStoreTable, columns: list[str] | None, predicate: Predicate | None) -> list[str]:
    plan = plan_of(table, columns=columns, predicate=predicate)
    residual = None if predicate is None else plan.residual
    batches = (b for split in plan.splits for b in read_split(plan.table, split, plan.fields, residual))
    return sorted(repr(row) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
@pytest.mark.parametrize(
    ("file_format", "codec"), [("parquet", "zstd"), ("parquet", "none"), ("orc", "zstd"), ("avro", "zstd")]
)
def test_data_files(tmp_path: Path, file_format: str, codec: str, keyed: bool) -> None:
    make_table(tmp_path / "t", file_format, codec, keyed=keyed)
    io = CuttingIO()
    table = replace(load_table(str(tmp_path / "t")), file_io=io)
    random = chance("cut", file_format, codec, keyed)
    reads: list[tuple[list[str] | None, Predicate | None]] = [(None, None), (["v"], Leaf("gt", "k", (200,)))]
    found: Counter[str] = Counter()
    for read in reads:
        CuttingIO.cut = None
        expected = rows(table, *read)
        CuttingIO.cut = counting = Cut(-1, 0)
        assert rows(table, *read) == expected
        for at in random.sample(range(counting.reads), min(12, counting.reads)):
            CuttingIO.cut = cut = Cut(at, random.random())
            try:
                found["same" if rows(table, *read) == expected else "other rows"] += 1
            except PaimonError:
                found["error"] += 1
            finally:
                cut.undo()
    CuttingIO.cut = None
    assert found["error"]
    assert not found["other rows"], found


@pytest.mark.parametrize("deed", ["described", "brought"])
def test_files_that_are_copied(tmp_path: Path, deed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that a descriptor names are read in parts; those of a migration are copied in parts."""
    source, size = tmp_path / "data-x", 20 << 20
    source.write_bytes(os.urandom(size))
    part = descriptor(str(source), 1, size - 1)
    deeds: dict[str, Callable[[FileIO], Any]] = {
        "described": lambda io: b"".join(DescribedFiles("/t", io, ("*",), {}).parts(part)),
        "brought": lambda io: bring(io, str(source), str(tmp_path / "copy"), link=False),
    }
    io = CuttingIO()
    for at in range(4):
        monkeypatch.setattr(CuttingIO, "cut", cut := Cut(at, 0.6))
        try:
            with pytest.raises(PaimonError):
                deeds[deed](io)
        finally:
            cut.undo()
        assert not (tmp_path / "copy").exists()
        if cut.reads <= at + 1:
            break
