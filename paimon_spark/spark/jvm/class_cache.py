"""Compiled classes of this package that are kept between processes: a file for each Spark, Java and package.

It lies in ``$PAIMON_SPARK_CACHE``, else in ``paimon_spark`` of the user's directory of caches; an empty variable lets
nothing be kept. Only a directory is used that is the user's own and that nobody else can write to, for what is read
becomes code of the driver. A file that cannot be read or written is left alone: the classes are compiled.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

VARIABLE = "PAIMON_SPARK_CACHE"
_MOST_FILES = 8
_SUFFIX = ".zip"


def cache_folder() -> Path | None:
    """Return the directory, which is made; None where there can be none that is only the user's."""
    given = os.environ.get(VARIABLE)
    if given == "":
        return None
    try:
        folder = (
            Path(given)
            if given
            else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / __package__.partition(".")[0]
        )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except (OSError, RuntimeError):  # there is no home
        return None
    is_own = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)
    return folder if is_own else None


def cache_file(sources: Mapping[str, str], class_path: str, versions: Iterable[str]) -> Path | None:
    """Return the file for some sources in one JVM, whether it is there or not; None where nothing is kept.

    Args:
        sources: of which the classes are compiled.
        class_path: of the JVM: files of another size or time are another Spark, whose classes lack other members.
        versions: what else tells JVMs apart.
    """
    folder = cache_folder()
    if folder is None:
        return None
    digest = hashlib.sha256()
    for part in (*versions, *(text for item in sorted(sources.items()) for text in item)):
        digest.update(f"{len(part)}:{part}".encode())
    for path in class_path.split(os.pathsep):
        with suppress(OSError):
            found = os.stat(path)
            digest.update(f"{path}:{found.st_size}:{found.st_mtime_ns}".encode())
    return folder / f"{digest.hexdigest()}{_SUFFIX}"


def read_classes(file: Path) -> dict[str, bytes]:
    """Return the class files by name; none where the file is not there or broken."""
    try:
        with zipfile.ZipFile(file) as kept:
            return {name: kept.read(name) for name in kept.namelist()}  # checks each sum
    except (OSError, zipfile.BadZipFile, EOFError, ValueError):
        return {}


def write_classes(file: Path, classes: Mapping[str, bytes]) -> None:
    """Let a file hold these class files, for others at once; the oldest files of the directory go."""
    with suppress(OSError):
        with NamedTemporaryFile(dir=file.parent, suffix=".new", delete=False) as made:
            try:
                with zipfile.ZipFile(made, "w") as kept:
                    for name, data in classes.items():
                        kept.writestr(name, data)
                made.close()
                os.replace(made.name, file)
            finally:
                with suppress(OSError):
                    os.unlink(made.name)
        files = sorted(file.parent.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime)
        for old in files[:-_MOST_FILES]:
            old.unlink()
