"""Workers of Spark's between tasks: what PySpark and the kernel do for each."""

import gc
import os
import pickle
import socket
import zipfile
import zipimport
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from paimon_spark.spark.jobs.arrow_functions import map_in_arrow
from paimon_spark.spark.source import worker_process
from paimon_spark.spark.source.reader import PaimonReader
from paimon_spark.spark.source.table_read import SystemTableReader
from paimon_spark.spark.source.worker_process import speed_up_worker
from paimon_spark.spark.source.writer import PaimonWriter


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "modules.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("first.py", "VALUE = 1")
    return path


@pytest.fixture
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipimport.zipimporter, "invalidate_caches", zipimport.zipimporter.invalidate_caches)
    monkeypatch.setattr(worker_process, "_RELOADS_AT_ONCE", True)
    monkeypatch.setattr(TaskContext, "get", object)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    worker_process._keep_directories_of_archives.cache_clear()
    worker_process._local_connections.cache_clear()


@pytest.mark.usefixtures("in_a_task")
def test_an_archive_is_read_again_only_once_it_has_changed(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    directory = zipimport._read_directory  # type: ignore[attr-defined]
    monkeypatch.setattr(zipimport, "_read_directory", lambda path: read.append(path) or directory(path))
    speed_up_worker()
    importer = zipimport.zipimporter(str(archive))
    importer.invalidate_caches()
    read.clear()
    for _ in range(3):
        importer.invalidate_caches()
    assert read == []
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("second.py", "VALUE = 2")
    importer.invalidate_caches()
    assert importer.find_spec("second") is not None


@pytest.mark.usefixtures("in_a_task")
def test_an_archive_that_is_gone_gives_what_python_gives(archive: Path) -> None:
    speed_up_worker()
    importer = zipimport.zipimporter(str(archive))
    archive.unlink()
    importer.invalidate_caches()
    assert importer.find_spec("first") is None


def test_outside_a_task_nothing_is_changed() -> None:
    before = zipimport.zipimporter.invalidate_caches
    speed_up_worker()
    assert zipimport.zipimporter.invalidate_caches is before


@pytest.fixture
def connected() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server, closing(socket.socket()) as connection:
        connection.connect(server.getsockname())
        with closing(server.accept()[0]):
            yield connection


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="an option of Linux")
@pytest.mark.usefixtures("in_a_task")
def test_each_task_acknowledges_what_the_jvm_sends(connected: socket.socket) -> None:
    for _ in range(2):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)  # as the kernel does after some answers
        assert not connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
        speed_up_worker()
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
    assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert connected.getsockname() is not None  # still open


@pytest.mark.usefixtures("in_a_task")
def test_a_connection_that_is_closed_meanwhile_does_no_harm(connected: socket.socket) -> None:
    speed_up_worker()
    connected.close()
    speed_up_worker()


@pytest.mark.usefixtures("in_a_task")
def test_a_connection_still_blocks_where_new_sockets_have_a_timeout(
    connected: socket.socket,
) -> None:
    socket.setdefaulttimeout(5)
    try:
        speed_up_worker()
    finally:
        socket.setdefaulttimeout(None)
    assert os.get_blocking(connected.fileno())


@pytest.mark.usefixtures("in_a_task")
def test_modules_are_taken_out_of_garbage_collections_once(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    modules = dict(worker_process.sys.modules)
    monkeypatch.setattr(worker_process, "_MODULES_KEPT", 0)
    monkeypatch.setattr(worker_process, "gc", SimpleNamespace(freeze=lambda: frozen.append(1)))
    monkeypatch.setattr(worker_process, "sys", SimpleNamespace(modules=modules))
    for _ in range(3):
        speed_up_worker()
    assert len(frozen) == 1
    modules["imported.by.the.first.task"] = modules["gc"]
    speed_up_worker()
    assert len(frozen) == 2


@pytest.mark.parametrize("kind", [PaimonReader, SystemTableReader, PaimonWriter])
def test_sources_are_told_before_spark_reads_the_input(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    source = object.__new__(kind)
    source.__dict__["_state"] = "kept"
    pickled = pickle.dumps(source)
    monkeypatch.setattr(worker_process, "speed_up_worker", lambda: told.append(kind.__name__))
    assert pickle.loads(pickled)._state == "kept"
    assert told == [kind.__name__]


def _frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.record_batch({"frozen": [gc.get_freeze_count()]})


def test_jobs_of_ours_are_such_tasks(spark: SparkSession) -> None:
    rows = map_in_arrow(spark.range(0, 2, 1, 2), _frozen, "frozen long").collect()
    assert all(row.frozen > 1000 for row in rows)
