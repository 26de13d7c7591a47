"""A Java program that serves tests: compiled once, spoken to through its input and output, ended by closing its input.

The servers of stores that only listen on a port start by `store_server.served`.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.oracle.paimon_oracle import cache_dir


def compiled(source: Path, jars: Sequence[str]) -> str:
    """The directory of the classes of a source file, compiled once.

    Raises:
        RuntimeError: it does not compile.
    """
    content = "\n".join([source.read_text(encoding="utf-8"), *map(os.path.basename, jars)])
    name = hashlib.sha256(content.encode()).hexdigest()[:16]
    folder = Path(cache_dir()) / "classes" / f"{source.stem}-{name}"
    if not folder.exists():
        aside = folder.with_name(f"{folder.name}.{uuid.uuid4().hex[:8]}")
        aside.mkdir(parents=True)
        command = ["javac", "-proc:none", "-nowarn", "-d", str(aside), "-cp", os.pathsep.join(jars), str(source)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"javac: {done.stderr[-2000:]}")
        try:
            aside.replace(folder)
        except OSError:  # another process was first
            if not folder.exists():
                raise
    return str(folder)


@contextmanager
def java_server(
    source: Path, jars: Sequence[str], arguments: Sequence[str], folder: Path, *, options: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    """Start the program; its errors go to the file ``errors`` of the folder. It ends with the context.

    Args:
        source: its Java file, whose class is named like it.
        jars: its class path.
        arguments: what it is given.
        folder: its working directory.
        options: of the JVM.

    Raises:
        OSError: there is no Java.
        RuntimeError: it does not compile.
    """
    command = ["java", *options, "-cp", os.pathsep.join([compiled(source, jars), *jars]), source.stem, *arguments]
    with (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process
    finally:
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def core_site(folder: Path, settings: Mapping[str, str]) -> list[str]:
    """Where a program finds settings of Hadoop, for its class path; nothing where there are none."""
    if not settings:
        return []
    entries = "".join(f"<property><name>{n}</name><value>{v}</value></property>" for n, v in settings.items())
    (folder / "site").mkdir()
    (folder / "site/core-site.xml").write_text(f"<configuration>{entries}</configuration>")
    return [f"{folder}/site"]


def first_line(process: subprocess.Popen[str], folder: Path) -> str:
    """What the program says first.

    Raises:
        RuntimeError: it has ended before.
    """
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        errors = (folder / "errors").read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"{process.args[-1]} does not start: {errors[-2000:]}")  # type: ignore[index]
    return line
