"""Credentials of S3 that end are renewed while a process goes on: those of a program, and those of an assumed role."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.storage.file_io import FileIO, FsspecFileIO
from tests.support.s3_server import S3Server, s3_server

_PROGRAM = """
import datetime, json, pathlib
count = pathlib.Path({count!r})
number = int(count.read_text()) + 1
count.write_text(str(number))
until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds={seconds})
print(json.dumps({{"Version": 1, "AccessKeyId": f"KEY{{number}}", "SecretAccessKey": "hidden",
                   "SessionToken": "token", "Expiration": until.isoformat()}}))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@contextmanager
def asking(file_io: FsspecFileIO, path: str) -> Iterator[list[str]]:
    """The ids of the keys with which requests are signed."""
    store, seen = file_io.filesystem(path), []

    def note(request: Any, **_: Any) -> None:
        header = request.headers["Authorization"]
        text = header.decode() if isinstance(header, bytes) else header
        seen.append(re.findall(r"Credential=([^/]+)/", text)[0])

    store.connect()
    events = store.s3.meta.events
    events.register("before-send.s3", note)
    try:
        yield seen
    finally:
        events.unregister("before-send.s3", note)


def opened(server: S3Server, options: dict[str, str]) -> FsspecFileIO:
    reached = {key: value for key, value in server.options.items() if "-key" not in key}
    found = FileIO.for_path(server.root, {**reached, **options})
    assert isinstance(found, FsspecFileIO)
    return found


@pytest.mark.parametrize(("seconds", "calls"), [(2, "several"), (3600, "one")])
def test_a_program_is_asked_again(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, calls: str
) -> None:
    count, program, config = tmp_path / "count", tmp_path / "credentials.py", tmp_path / "config"
    count.write_text("0")
    program.write_text(_PROGRAM.format(count=str(count), seconds=seconds))
    config.write_text(f"[profile ending]\ncredential_process = {sys.executable} {program}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    # fsspec keeps a file system for each set of options: a number of their own makes these others
    file_io = opened(server, {"fs.profile": "ending", "s3.connection.timeout": f"{10000 + seconds}"})
    with asking(file_io, server.root) as keys:
        for number in range(3):
            file_io.write_bytes(f"{server.root}/{calls}-{number}", b"x", overwrite=True)
    assert len(set(keys)) > 1 if calls == "several" else len(set(keys)) == 1
    assert all(key.startswith("KEY") for key in keys)


def test_a_role_is_assumed_again(server: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    role = {
        "fs.s3a.assumed.role.arn": "arn:aws:iam::123456789012:role/reader",
        "fs.s3a.assumed.role.sts.endpoint": server.url,
        "fs.s3a.assumed.role.session.duration": "15m",  # botocore renews what has no more than that
        "s3.access-key": "base",
        "s3.secret-key": "hidden-base",
    }
    file_io = opened(server, role)
    with asking(file_io, server.root) as keys:
        for number in range(3):
            file_io.write_bytes(f"{server.root}/role-{number}", b"x", overwrite=True)
    assert all(key.startswith("ASIA") for key in keys), "the role's, not those that assume it"
    assert len(set(keys)) == len(keys) >= 3
    assert "hidden-base" in file_io.secrets()
    assert "hidden-base" not in caplog.text + repr(file_io)
