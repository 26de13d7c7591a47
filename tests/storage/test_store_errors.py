"""Errors of disks and stores are PaimonErrors that say what failed and what to do, and no secret."""

from __future__ import annotations

import errno
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import fsspec
import gcsfs
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from paimon_spark.errors import OptionError, PaimonError, StorageDeniedError, StorageError
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.storage import azure, gcs, silence
from paimon_spark.storage.file_io import FileIO, FsspecFileIO
from paimon_spark.storage.formats import create_data_file, open_data_file
from paimon_spark.storage.store_errors import not_opened, translated
from paimon_spark.storage.store_options import fsspec_options


class _OfBotocore(Exception):
    """Libraries raise what is no OSError."""


def _named(name: str) -> type[Exception]:
    return type(name, (_OfBotocore,), {})


ERRORS: list[tuple[Exception, type[Exception], str]] = [
    (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), OSError, r"No space is left for 's3://b/t'.*Free some"),
    (OSError(errno.EROFS, "x"), OSError, "file system is read-only"),
    (OSError(errno.ENAMETOOLONG, "x"), OSError, r"too long.*Shorten the name"),
    (NotADirectoryError(errno.ENOTDIR, "x"), OSError, "a file where a directory should be"),
    (OSError(errno.EIO, "Input/output error"), OSError, "The store failed at 's3://b/t': Input/output error"),
    (
        PermissionError(errno.EACCES, "Permission denied"),
        PermissionError,
        "may not be read or written",
    ),
    (FileNotFoundError(errno.ENOENT, "x"), FileNotFoundError, "There is no file 's3://b/t'"),
    (FileNotFoundError("The specified bucket does not exist"), FileNotFoundError, "The bucket of 's3://b/t' does not"),
    (_named("EndpointConnectionError")("Could not connect"), OSError, r"does not answer.*s3\.endpoint.*timeout"),
    (_named("ReadTimeoutError")("Read timeout"), OSError, r"does not answer.*s3\.connection\.timeout"),
    (_named("NoCredentialsError")("Unable to locate credentials"), PermissionError, r"without keys.*s3\.access-key"),
    (_named("ClientError")("(InvalidAccessKeyId) when calling"), PermissionError, r"check the keys"),
    (
        TypeError("create_client() got an unexpected keyword argument 'nope'"),
        OSError,
        r"options that start with 'fs\.'",
    ),
    (_named("AzureSigningError")("Incorrect padding"), OSError, r"the account's key is no text of base64"),
    (_OfBotocore("endpoint is required"), OSError, r"has no address.*fs\.oss\.endpoint"),
    (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), OSError, "no name of a file can have"),
    (ValueError("embedded null byte"), OSError, "no name of a file can have"),
]


class _Answer(Exception):
    """What Azure's package raises."""

    status_code = 403


@pytest.mark.parametrize(
    ("path", "option"),
    [
        ("s3a://b/t", "s3.secret-key"),
        ("oss://b/t", "fs.oss.accessKeyId"),
        ("gs://b/t", "fs.token"),
        ("abfss://c@a.dfs.core.windows.net/t", "fs.account_key"),
    ],
)
def test_a_denial_names_the_options_of_its_store(path: str, option: str) -> None:
    assert option in str(translated(_named("ClientError")("(InvalidAccessKeyId) when calling"), path))
    assert "'s3." not in str(translated(PermissionError(errno.EACCES, "x"), "hdfs://n/t"))


def test_a_denial_is_known_by_the_answer_behind_the_error() -> None:
    def failing() -> None:
        try:
            raise _Answer("not allowed")
        except _Answer as denied:
            raise RuntimeError("Failed to upload block: not allowed") from denied

    with pytest.raises(RuntimeError) as caught:
        failing()
    assert isinstance(translated(caught.value, "abfs://b/t"), PermissionError)
    caught.value.__cause__ = caught.value.__context__ = None
    assert not isinstance(translated(caught.value, "abfs://b/t"), PermissionError)


@pytest.mark.parametrize(("error", "kind", "words"), ERRORS, ids=lambda value: getattr(type(value), "__name__", ""))
def test_each_error_says_what_to_do(error: Exception, kind: type[Exception], words: str) -> None:
    found = translated(error, "s3://user:pa55@b/t")
    assert isinstance(found, StorageError)
    assert isinstance(found, kind)
    with pytest.raises(PaimonError, match=words):
        raise pickle.loads(pickle.dumps(found))
    assert found.errno == getattr(error, "errno", None)
    assert "pa55" not in str(found)


def test_a_denial_of_hdfs_is_reported_without_javas_stack() -> None:
    said = (
        'RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied: user=x, access=WRITE'
        '\\n\\tat org.apache.hadoop.A$b.check(A.java:4)\\n\\tat org.apache.hadoop.B.c(B.java:5)\\n")'
    )
    found = translated(OSError(said), "hdfs://h/t")
    assert isinstance(found, PermissionError)
    assert "may not be read or written" in str(found)
    assert "user=x, access=WRITE)" in str(found)
    assert "A.java" not in str(found)


def test_a_long_explanation_is_cut_to_its_first_line() -> None:
    wordy = OSError("Unable to load libjvm:\n" + "\n".join(f"/usr/lib/{n}/libjvm.so" for n in range(200)))
    text = str(not_opened(wordy, "hdfs", "hdfs://host/x", ()))
    assert "\n" not in text
    assert "pip install 'hdfs-native>=0.14'" in text
    assert "webhdfs://" in text


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_full_disk_under_a_data_file(tmp_path: Path, file_format: str) -> None:
    path = tmp_path / f"f.{file_format}"
    path.symlink_to("/dev/full")
    rows = pa.table({"a": pa.array(range(300_000), pa.int32())})
    with pytest.raises(StorageError, match="No space is left for"):
        _write(FileIO.for_path(str(path)), str(path), file_format, rows)
    assert Path("/dev/full").exists()


def _write(file_io: FileIO, path: str, file_format: str, rows: pa.Table) -> None:
    writer = create_data_file(file_io, path, file_format, [DataField(0, "a", IntType())])
    writer.write(rows)
    writer.flush()
    writer.close()


@pytest.mark.parametrize("name", ["x" * 300, "\ud800", "a\0b"])
@pytest.mark.parametrize("call", ["read_bytes", "exists", "mkdirs", "write", "open_output", "create_exclusive"])
def test_names_that_no_file_can_have(tmp_path: Path, name: str, call: str) -> None:
    path = f"{tmp_path}/{name}/y"
    file_io = FileIO.for_path(path)
    calls: dict[str, Callable[[], Any]] = {
        "write": lambda: file_io.write_bytes(path, b""),
        "create_exclusive": lambda: file_io.create_exclusive(path, b""),
    }
    if call == "exists":  # what cannot be is not there
        assert not file_io.exists(path) or name
        return
    with pytest.raises(StorageError, match=r"too long|no name of a file can have|There is no file") as caught:
        calls.get(call, lambda: getattr(file_io, call)(path))()
    str(caught.value).encode("utf-8")


class _Broken(MemoryFileSystem):
    """A store whose calls fail as object stores' do, and whose open files break while they are read."""

    protocol = "broken"
    cachable = False

    def cat_file(self, *_: Any, **__: Any) -> bytes:
        raise _named("ReadTimeoutError")("Read timeout on endpoint URL: http://x?key=hushhush")

    def ls(self, *_: Any, **__: Any) -> list[Any]:
        raise FileNotFoundError("The specified bucket does not exist")

    def rm_file(self, path: str) -> None:
        raise _named("NoCredentialsError")("Unable to locate credentials")

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        raise _named("NoCredentialsError")("Unable to locate credentials")


def test_a_library_that_raises_what_is_no_os_error(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec.register_implementation("broken", _Broken, clobber=True)
    monkeypatch.setattr("paimon_spark.storage.store_options._OF_EVERY_STORE", frozenset({"secret"}))
    store = FsspecFileIO("broken", {"secret": "hushhush"})
    with pytest.raises(StorageError, match=r"does not answer \(Read timeout .*\*\*\*") as caught:
        store.read_bytes("broken://b/x")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    with pytest.raises(StorageError, match=r"The bucket of 'broken://b/x' does not exist"):
        store.list_names("broken://b/x")
    with pytest.raises(StorageError, match="without keys"):
        store.open_input("broken://b/x")
    assert not store.delete_quietly("broken://b/x")


@pytest.mark.parametrize("reason", ["HTTPConnectionPool(host='127.0.0.1', port=40333): Read timed out", "data-403f"])
def test_a_number_that_has_403_in_it_is_no_denial(reason: str) -> None:
    assert not isinstance(translated(_named("ReadTimeout")(reason), "oss://b/x"), StorageDeniedError)
    for said in ("HTTP 403", "status: 403, details", "(403)", "Server returned 403."):
        assert isinstance(translated(_named("ReadTimeout")(said), "oss://b/x"), StorageDeniedError)


def test_data_nodes_that_do_not_answer_are_one_sentence() -> None:
    raised = RuntimeError('DataTransferError("All DataNodes failed: [DatanodeInfoProto { id: DatanodeIdProto')
    found = translated(raised, "hdfs://n:1/wh/t/schema/schema-0")
    assert str(found).startswith("No DataNode of HDFS gives 'hdfs://n:1/wh/t/schema/schema-0'. Check that")
    assert "Proto" not in str(found)


def test_a_file_of_a_store_that_breaks_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "memory://breaks/f.parquet"
    file_io = FileIO.for_path(path)
    _write(file_io, path, "parquet", pa.table({"a": pa.array(range(10), pa.int32())}))

    def fail(*_: Any) -> bytes:
        raise _named("ClientConnectorError")("Connection reset")

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFile.read", fail)
    with pytest.raises(StorageError, match=r"memory://breaks/f.parquet' does not answer \(Connection reset\)"):
        open_data_file(file_io, path, "parquet")


def test_an_unknown_option_of_a_store_is_refused() -> None:
    store = FileIO.for_path("memory://x", {"fs.skip_instance_cach": "true"})
    with pytest.raises(OptionError, match=r"Unknown option 'fs\.skip_instance_cach'.*Did you mean 'fs\.skip_inst"):
        store.exists("memory://x")
    with pytest.raises(OptionError, match="fsspec's documents of S3FileSystem list them"):
        FileIO.for_path("s3://b/x", {"fs.qqqqqqqqqq": "1"}).exists("s3://b/x")


def test_time_outs_of_s3_are_bounded_and_can_be_given() -> None:
    bounds = fsspec_options("s3", "s3://b", {})["config_kwargs"]
    attempts = bounds["retries"]["total_max_attempts"]
    assert (bounds["connect_timeout"] + bounds["read_timeout"]) * attempts <= 60
    given = {
        "s3.connection.timeout": "7 s",
        "fs.s3a.connection.establish.timeout": "1500",
        "fs.s3a.attempts.maximum": "2",
    }
    assert fsspec_options("s3", "s3://b", given)["config_kwargs"] == {
        "connect_timeout": 1.5,
        "read_timeout": 7.0,
        "retries": {"mode": "standard", "total_max_attempts": 2},
        "max_pool_connections": bounds["max_pool_connections"],
    }
    given = {"s3.connection.maximum": "7"}
    assert fsspec_options("s3", "s3://b", given)["config_kwargs"] == {**bounds, "max_pool_connections": 7}
    own = fsspec_options("s3", "s3://b", {"fs.config_kwargs": '{"read_timeout": 99}'})["config_kwargs"]
    assert (own["read_timeout"], own["connect_timeout"]) == (99, bounds["connect_timeout"])
    for key, value in (
        ("s3.connection.timeout", "soon"),
        ("s3.attempts.maximum", "0"),
        ("fs.s3a.connection.maximum", "many"),
    ):
        with pytest.raises(OptionError, match=r"time-out of the store|number from 1 on"):
            fsspec_options("s3", "s3://b", {key: value})


ELSEWHERE = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=aGlkZGVu;BlobEndpoint=http://127.0.0.1:1/a;"


def test_a_silent_store_of_google_or_azure_is_given_up_within_a_minute() -> None:
    """By the policy of Azure's package itself, whose pauses begin with the second power."""
    pauses = gcs.ATTEMPTS - 1
    assert gcs.LAST_ATTEMPT_SECONDS + pauses + gcs.ANSWER_SECONDS <= 60
    path = "abfs://c/wh/t"
    store = FileIO.for_path(path, {"fs.connection_string": ELSEWHERE}).filesystem(path)  # type: ignore[attr-defined]
    policy = store.service_client._config.retry_policy
    jitter, policy.random_jitter_range = policy.random_jitter_range, 0
    waits = [policy.get_backoff_time({"count": number}) + jitter for number in range(1, policy.total_retries + 1)]
    policy.random_jitter_range = jitter
    assert (policy.total_retries + 1) * azure.ANSWER_SECONDS + sum(waits) <= 60
    to_connect = policy.connect_retries
    assert (to_connect + 1) * azure.CONNECT_SECONDS + sum(waits[:to_connect]) < 30, "no such host is to be reached"


@pytest.mark.parametrize("kind", ["ConnectionTimeoutError", "ClientConnectorDNSError"])
def test_google_is_asked_three_times_where_nobody_listens(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Each time takes five seconds where a host is not to be reached: an error within 30."""
    asked: list[int] = []

    async def once(*_: Any, **__: Any) -> None:
        asked.append(1)
        raise getattr(aiohttp, kind)(*([] if kind == "ConnectionTimeoutError" else [_Nobody(), OSError("nobody")]))

    async def no_pause(_: float) -> None:
        pass

    monkeypatch.setattr(silence, "_SINCE", {})
    monkeypatch.setattr(gcsfs.GCSFileSystem._request, "__wrapped__", once)
    monkeypatch.setattr(gcs.asyncio, "sleep", no_pause)  # type: ignore[attr-defined]
    with pytest.raises(StorageError, match="does not answer"):
        FileIO.for_path("gs://b/t", {"fs.token": "anon"}).list_names("gs://b/t")
    assert len(asked) == 3
    assert len(asked) * gcs.CONNECT_SECONDS + sum(1 + 2**n for n in range(2)) < 30


class _Nobody:
    """What aiohttp's error asks of where it wanted to connect."""

    host, port, ssl = "nobody", 1, True


def test_alibaba_is_waited_for_less_than_half_a_minute_where_nobody_listens() -> None:
    path = "oss://bucket/t"
    options = {"fs.oss.endpoint": "http://127.0.0.1:1", "fs.oss.accessKeyId": "a", "fs.oss.accessKeySecret": "b"}
    store = FileIO.for_path(path, options).filesystem(path)  # type: ignore[attr-defined]
    connect, _ = store._get_bucket("bucket").timeout
    assert connect * store._attempts() <= 15
