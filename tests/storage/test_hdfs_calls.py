"""Reads of HDFS's client: in pieces, each of which is given up after a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from unittest.mock import MagicMock

import pytest

from paimon_spark.storage import hdfs
from paimon_spark.storage.hdfs import BoundedClient

DATA = bytes(range(256)) * 40
_PIECE = 1000


class _Raw:
    """What the client reads by; it stands still at a position for ever."""

    def __init__(self, stops_at: int, ended: threading.Event) -> None:
        self._stops_at, self._ended, self._position = stops_at, ended, 0

    def file_length(self) -> int:
        return len(DATA)

    def tell(self) -> int:
        return self._position

    def seek(self, position: int) -> None:
        self._position = position

    def read(self, size: int) -> bytes:
        found = self.read_range(self._position, size)
        self._position += len(found)
        return found

    def read_range(self, offset: int, size: int) -> bytes:
        assert size <= _PIECE
        if offset + size > self._stops_at:
            self._ended.wait()
        return DATA[offset : offset + size]


class _File:
    def __init__(self, inner: _Raw) -> None:
        self.inner = inner


class _Client:
    def __init__(self, stops_at: int, ended: threading.Event) -> None:
        self._stops_at, self._ended = stops_at, ended

    def read(self, path: str) -> _File:
        return _File(_Raw(self._stops_at, self._ended))


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    monkeypatch.setattr(hdfs, "_PIECE_BYTES", _PIECE)
    found = threading.Event()
    yield found
    found.set()


def test_a_file_is_read_in_pieces(ended: threading.Event) -> None:
    reader = BoundedClient(lambda: _Client(len(DATA), ended)).read("/f").inner
    assert reader.read(-1) == DATA
    assert reader.read(10) == b""
    reader.seek(5)
    assert (reader.read(2500), reader.tell()) == (DATA[5:2505], 2505)
    assert reader.read_range(7, 3001) == DATA[7:3008]
    assert reader.read_range(7, 0) == b""


def test_a_data_node_that_is_silent_in_the_middle_of_a_block_is_given_up(
    ended: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hdfs.ANSWER_SECONDS < 60
    monkeypatch.setattr(hdfs, "ANSWER_SECONDS", 0.3)
    reader = BoundedClient(lambda: _Client(4000, ended)).read("/f").inner
    for read in (lambda: reader.read(-1), lambda: reader.read_range(0, 5000)):
        with pytest.raises(TimeoutError, match="a DataNode has not answered 'read'"):
            read()


def test_a_file_whose_end_was_given_up_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's `with` ends a file again after a call that was given up, and the client says that it is at work."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    store, opened = MagicMock(), []

    def open_file(path: str, _mode: str) -> MagicMock:
        opened.append(path)
        file = MagicMock()
        file.__enter__.return_value = file
        file.__exit__.side_effect = RuntimeError("Already borrowed") if len(opened) == 1 else None
        file.__exit__.return_value = False
        return file

    store.open = open_file
    hdfs._put(store, "/t/snapshot/snapshot-2", b"x", overwrite=False)
    store.client.delete.assert_called_once_with(opened[0], False)
    store.client.rename.assert_called_once_with(opened[1], "/t/snapshot/snapshot-2", False)
