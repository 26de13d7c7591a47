"""Workers of Spark's between tasks: what PySpark looks up again before each."""

import zipfile
import zipimport
from pathlib import Path

import pytest
from pyspark import TaskContext

from paimon_spark.spark.source import worker_process
from paimon_spark.spark.source.worker_process import speed_up_worker


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
    worker_process._keep_directories_of_archives.cache_clear()


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
