"""Two NameNodes: the active one dies in the middle of commits, and comes back; no commit is lost or doubled."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import absent
from paimon_spark.errors import CommitStateUnknownError, PaimonError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.table import load_table
from tests.support.hdfs_server import Nameservice, hdfs_nameservice
from tests.support.racing import PATIENT
from tests.support.store_tables import FIELDS, insert, rows_of

pytestmark = pytest.mark.thorough
WRITERS = 2


@pytest.fixture(scope="module")
def both() -> Iterator[Nameservice]:
    try:
        with hdfs_nameservice() as running:
            yield running
    except (OSError, RuntimeError) as error:
        absent(f"HDFS with two NameNodes ({' '.join(str(error).split())[:200]})")


class Writers:
    """Threads that commit a row again and again."""

    def __init__(self, path: str, options: dict[str, str]) -> None:
        self.done: list[int] = []
        self.failed: list[tuple[int, PaimonError]] = []
        self._path, self._options, self._ended = path, {**options, **PATIENT}, threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(1000 * (n + 1),)) for n in range(WRITERS)]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(120)

    def _write(self, key: int) -> None:
        while not self._ended.is_set():
            key += 1
            try:
                assert insert(load_table(self._path, options=self._options), {0: 1, key: 1}) is not None
            except PaimonError as error:
                self.failed.append((key, error))
            else:
                self.done.append(key)

    def wait_for_commits(self, more: int) -> None:
        wanted, end = len(self.done) + more, time.monotonic() + 120
        while len(self.done) < wanted:
            assert time.monotonic() < end, self.failed[-1:]
            time.sleep(0.05)


@pytest.mark.turns("storm")
def test_a_fail_over_loses_no_commit(both: Nameservice) -> None:
    server = both.server
    catalog = FilesystemCatalog(server.root, {**server.options, **PATIENT})
    catalog.create_database("d")
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    path = catalog.create_table("d", "t", create_schema(FIELDS, ["k"], [], options)).path
    with Writers(path, server.options) as writers:
        writers.wait_for_commits(3)
        both.fail_over()
        writers.wait_for_commits(3)
        both.fail_over(back=True)
        writers.wait_for_commits(3)
    unknown = {key for key, error in writers.failed if isinstance(error, CommitStateUnknownError)}
    for _ in range(2):
        found = rows_of(load_table(path, options=server.options))
        there = found.keys() - {0}
        assert set(writers.done) <= there <= {*writers.done, *unknown}
        assert found == {0: len(there), **dict.fromkeys(there, 1)}
        compact(load_table(path, options=server.options), full=True)


@pytest.mark.turns("storm")
def test_a_nameservice_by_files_of_hadoop(both: Nameservice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {key.removeprefix("hadoop."): value for key, value in both.server.options.items()}
    for file, names in (("core-site.xml", ["fs.defaultFS"]), ("hdfs-site.xml", sorted(settings))):
        found = {"fs.defaultFS": "hdfs://both", **settings}
        properties = "".join(f"<property><name>{name}</name><value>{found[name]}</value></property>" for name in names)
        (tmp_path / file).write_text(f"<configuration>{properties}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    path = f"{both.server.root}/by-files"
    FileIO.for_path(path, {"hadoop.x": "another client"}).write_bytes(path, b"1", overwrite=True)
    assert FileIO.for_path(path, both.server.options).read_bytes(path) == b"1"
