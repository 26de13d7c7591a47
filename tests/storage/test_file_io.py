import multiprocessing
import os
import pickle
import re
import sys
import threading
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_spark.errors import PaimonError, UnsupportedError
from paimon_spark.storage import local_files, tree_changes
from paimon_spark.storage.extras import pip_command
from paimon_spark.storage.file_io import FileIO, FsspecFileIO, LocalFileIO
from paimon_spark.storage.store_errors import translated


def join(path: str, *names: str) -> str:
    return "/".join((path, *names))


@pytest.fixture(params=["plain", "file:", "file://", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    spelled = {"plain": str(tmp_path), "file:": f"file:{tmp_path}", "file://": f"file://{tmp_path}"}
    return spelled.get(request.param, f"memory://test-{uuid.uuid4()}/wh")


@pytest.fixture
def file_io(root: str) -> FileIO:
    return pickle.loads(pickle.dumps(FileIO.for_path(root)))


def test_writes_and_reads_whole_files(file_io: FileIO, root: str) -> None:
    path = join(root, "a", "b")
    file_io.write_bytes(path, b"one")
    assert file_io.read_bytes(path) == b"one"
    assert file_io.size(path) == 3
    assert file_io.exists(path)
    with pytest.raises(FileExistsError):
        file_io.write_bytes(path, b"two")
    assert file_io.read_bytes(path) == b"one"
    file_io.write_bytes(path, b"two", overwrite=True)
    assert file_io.read_bytes(path) == b"two"


def test_what_is_missing_is_missing(file_io: FileIO, root: str) -> None:
    path = join(root, "none")
    assert not file_io.exists(path)
    assert file_io.list_names(path) == []
    file_io.delete_quietly(path)
    with pytest.raises(FileNotFoundError):
        file_io.read_bytes(path)
    with pytest.raises(FileNotFoundError):
        file_io.size(path)


def test_lists_one_level(file_io: FileIO, root: str) -> None:
    file_io.write_bytes(join(root, "d", "x y%20=ü"), b"12345")
    file_io.write_bytes(join(root, "d", "sub", "deep"), b"1")
    found = {status.name: status for status in file_io.list_names(join(root, "d"))}
    assert set(found) == {"x y%20=ü", "sub"}
    assert (found["x y%20=ü"].size, found["x y%20=ü"].is_dir, found["sub"].is_dir) == (5, False, True)
    assert 1_600_000_000_000 < found["x y%20=ü"].mtime_millis < 5_000_000_000_000


def test_moves_and_deletes(file_io: FileIO, root: str) -> None:
    file_io.write_bytes(join(root, "d", "x"), b"1")
    file_io.mkdirs(join(root, "e"))
    file_io.rename(join(root, "d", "x"), join(root, "e", "y"))
    assert [status.name for status in file_io.list_names(join(root, "e"))] == ["y"]
    file_io.delete_quietly(join(root, "e", "y"))
    assert not file_io.exists(join(root, "e", "y"))
    file_io.write_bytes(join(root, "f", "g", "h"), b"1")
    file_io.delete_quietly(join(root, "f"), recursive=True)
    assert not file_io.exists(join(root, "f", "g", "h"))


def test_a_name_is_never_a_pattern(file_io: FileIO, root: str) -> None:
    """fsspec's own `rm` would take the others as well."""
    for name in ("tag-a", "tag-b", "tag-*", "tag-[ab]", "tag-?"):
        file_io.write_bytes(join(root, "tag", name), b"1")
        file_io.write_bytes(join(root, "branch", name, "schema", "schema-0"), b"1")
    for name in ("tag-*", "tag-[ab]", "tag-?"):
        file_io.delete_quietly(join(root, "tag", name))
        file_io.delete_quietly(join(root, "branch", name), recursive=True)
    assert {status.name for status in file_io.list_names(join(root, "tag"))} == {"tag-a", "tag-b"}
    assert {status.name for status in file_io.list_names(join(root, "branch"))} == {"tag-a", "tag-b"}
    assert file_io.exists(join(root, "branch", "tag-a", "schema", "schema-0"))


def test_a_pattern_is_not_moved(root: str, file_io: FileIO) -> None:
    file_io.write_bytes(join(root, "branch", "b-*", "x"), b"1")
    file_io.write_bytes(join(root, "branch", "b-a", "x"), b"1")
    if isinstance(file_io, LocalFileIO):
        file_io.rename(join(root, "branch", "b-*"), join(root, "branch", "c"))
        assert {status.name for status in file_io.list_names(join(root, "branch"))} == {"b-a", "c"}
        return
    with pytest.raises(UnsupportedError, match="pattern"):
        file_io.rename(join(root, "branch", "b-*"), join(root, "branch", "c"))
    assert {status.name for status in file_io.list_names(join(root, "branch"))} == {"b-a", "b-*"}


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_deletes_many(file_io: FileIO, root: str, threads: int | None) -> None:
    paths = [join(root, f"bucket-{n % 3}", f"data-{n}") for n in range(700)]
    for path in paths:
        file_io.write_bytes(path, b"1")
    kept = {paths.pop(450), paths.pop(7)}
    missing = [join(root, "bucket-0", "none"), join(root, "nowhere", "none")]
    file_io.delete_files([*missing, *paths, *missing], threads=threads)
    left = {join(root, f"bucket-{n}", e.name) for n in range(3) for e in file_io.list_names(f"{root}/bucket-{n}")}
    assert left == kept
    file_io.delete_files([])


class _BulkStore:
    """Deletes many objects with one request, all or nothing."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = set(keys)
        self.requests: list[int] = []

    def rm(self, keys: list[str]) -> None:
        self.requests.append(len(keys))
        if not self.keys.issuperset(keys):
            raise FileNotFoundError(next(iter(set(keys) - self.keys)))
        self.keys -= set(keys)


def test_deletes_in_bulk() -> None:
    keys = [f"b/data-{n}" for n in range(2500)]
    store = _BulkStore(keys)
    assert tree_changes.delete_in_bulk(store, keys) == []
    assert (store.requests, store.keys) == ([1000, 1000, 500], set())


def test_what_cannot_be_deleted_in_bulk_is_left_to_be_deleted_singly() -> None:
    keys = [f"b/data-{n}" for n in range(2500)]
    store = _BulkStore(keys)
    with_missing = [*keys[:1500], "b/missing", *keys[1500:2100], "b/pattern-*", *keys[2101:]]
    left = tree_changes.delete_in_bulk(store, with_missing)
    assert left == list(range(1000, len(with_missing)))
    assert store.requests == [1000, 1000], "the patterns' part is not even tried"
    assert {with_missing[location] for location in left} >= store.keys - {keys[2100]}


def test_arrow_reads_and_writes(file_io: FileIO, root: str) -> None:
    path = join(root, "new", "t.arrow")
    table = pa.table({"a": [1, 2, 3]})
    with file_io.open_output(path) as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    with file_io.open_input(path, file_io.size(path)) as source:
        assert pa.ipc.open_file(source).read_all() == table


def test_created_once(file_io: FileIO, root: str) -> None:
    path = join(root, "snapshot", "snapshot-1")
    assert file_io.create_exclusive(path, b"mine")
    assert not file_io.create_exclusive(path, b"yours")
    assert file_io.read_bytes(path) == b"mine"
    assert [status.name for status in file_io.list_names(join(root, "snapshot"))] == ["snapshot-1"]


def _create_many(directory: str, writer: int, barrier: object, results: object) -> None:
    file_io = FileIO.for_path(directory)
    barrier.wait()  # type: ignore[attr-defined]
    won = [n for n in range(40) if file_io.create_exclusive(f"{directory}/snapshot-{n}", b"%d" % writer * 5000)]
    results.put((writer, won))  # type: ignore[attr-defined]


def test_of_several_processes_one_creates_a_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(4), context.Queue()
    writers = [
        context.Process(target=_create_many, args=(str(tmp_path), writer, barrier, results)) for writer in range(4)
    ]
    for process in writers:
        process.start()
    won = dict(results.get(timeout=60) for _ in writers)
    for process in writers:
        process.join()
    assert sorted(n for numbers in won.values() for n in numbers) == list(range(40))
    for writer, numbers in won.items():
        for n in numbers:
            assert (tmp_path / f"snapshot-{n}").read_bytes() == b"%d" % writer * 5000
    assert len(os.listdir(tmp_path)) == 40, "temporary files are left behind"


def test_of_several_threads_one_creates_a_file_in_memory() -> None:
    root = f"memory://race-{uuid.uuid4()}"
    won: list[int] = []

    def create() -> None:
        won.extend(n for n in range(50) if FileIO.for_path(root).create_exclusive(f"{root}/s-{n}", b"x"))

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(50))


def test_readers_never_see_half_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "LATEST")
    file_io = FileIO.for_path(path)
    file_io.write_bytes(path, b"a" * 100_000)
    seen: set[bytes] = set()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.add(file_io.read_bytes(path))

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(50):
        file_io.write_bytes(path, (b"b" if n % 2 else b"c") * 100_000, overwrite=True)
    stop.set()
    reader.join()
    assert all(len(data) == 100_000 and len(set(data)) == 1 for data in seen)


def test_without_hard_links_nothing_is_published_unless_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = str(tmp_path / "snapshot-1")
    with pytest.raises(UnsupportedError, match=r"commit\.unsafe-rename"):
        FileIO.for_path(path).create_exclusive(path, b"x")
    assert os.listdir(tmp_path) == []
    reported = FileIO.for_path(path, {"commit.unsafe-rename": "true"})
    assert reported.create_exclusive(path, b"x")
    assert not reported.create_exclusive(path, b"y")
    assert os.listdir(tmp_path) == ["snapshot-1"]


def test_a_link_that_worked_although_its_answer_was_lost_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def repeat(source: str, target: str) -> None:
        real(source, target)
        raise FileExistsError(17, "File exists")

    monkeypatch.setattr(os, "link", repeat)
    assert local_files.create_by_link(str(tmp_path / "x"), b"1")


def test_a_store_that_cannot_create_exclusively_is_refused() -> None:
    store = FsspecFileIO("dir", {"path": "/tmp", "target_protocol": "memory"})
    with pytest.raises(UnsupportedError, match=r"commit\.unsafe-rename"):
        store.create_exclusive("dir://x/y", b"1")


@pytest.mark.parametrize(
    ("scheme", "module", "extra"),
    [("s3", "s3fs", "s3"), ("gs", "gcsfs", "gcs"), ("abfs", "adlfs", "azure"), ("oss", "ossfs", "oss")],
)
def test_a_missing_package_is_named_with_its_pip_command(
    scheme: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = pytest.importorskip("fsspec.registry")
    monkeypatch.delitem(registry._registry, scheme, raising=False)
    monkeypatch.setitem(sys.modules, module, None)  # an import of it fails, installed or not
    with pytest.raises(PaimonError, match=re.escape(pip_command(extra))):
        FileIO.for_path(f"{scheme}://bucket/x").exists(f"{scheme}://bucket/x")


def test_an_unknown_scheme_is_an_error_that_says_so() -> None:
    with pytest.raises(PaimonError, match="nosuch"):
        FileIO.for_path("nosuch://x").exists("nosuch://x")


def test_a_file_path_with_a_host_is_an_error() -> None:
    with pytest.raises(PaimonError, match="names the host 'server'"):
        FileIO.for_path("file://server/x").exists("file://server/x")


def test_credentials_are_in_no_text() -> None:
    options = {"s3.access-key": "AKIAVERYSECRET", "s3.secret-key": "hushhush", "fs.password": "pa55word", "other": "x"}
    store = FileIO.for_path("s3://user:pa55word@bucket/x", options)
    texts = [repr(store), str(store)]
    for call in (store.exists, store.read_bytes, lambda path: store.create_exclusive(path, b"")):
        with pytest.raises(PaimonError) as caught:
            call("s3://user:pa55word@bucket/x")
        texts += [str(caught.value), repr(caught.value)]
    for secret in ("AKIAVERYSECRET", "hushhush", "pa55word"):
        assert not any(secret in text for text in texts)


def test_errors_of_a_store_are_cleaned_of_secrets() -> None:
    secrets = FsspecFileIO("s3", {"secret": "hushhush", "client_kwargs": {"aws_session_token": "token1"}}).secrets()
    error = translated(OSError("denied for hushhush with token1"), "s3://b/x", secrets)
    assert "denied for *** with ***" in str(error)
    assert error.__cause__ is None


def test_a_local_store_ignores_other_options() -> None:
    assert FileIO.for_path("/x", {"s3.access-key": "y", "bucket": "1"}) == LocalFileIO()
