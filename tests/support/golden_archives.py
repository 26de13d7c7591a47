"""The golden tables as they lie in the repository, and the folder that one run unpacks them to.

`tests/golden/<name>.json` is what Java said of a table, and `tests/golden/<name>.tar.xz` holds the table's files and
Java's rows. The bytes of an archive depend on its contents only: `python tests/support/golden_archives.py FOLDER` packs
folders as they are unpacked (`FOLDER/<name>/expect.json`, `FOLDER/<name>/table/…`).
"""

from __future__ import annotations

import atexit
import io
import lzma
import os
import shutil
import sys
import tarfile
import tempfile
from functools import cache
from pathlib import Path

ARCHIVES = Path(__file__).resolve().parents[1] / "golden"
"""The directory of the archives."""

UNPACKED = "PAIMON_SPARK_TESTS_GOLDEN"
"""Environment variable: where a process above this one has unpacked them."""

EXPECTED = "expect.json"
"""The name of `<name>.json` in an unpacked folder."""


@cache
def golden_folder() -> Path:
    """The unpacked tables, `<name>/…` each; unpacked by the first process that asks, for those that it starts too."""
    known = os.environ.get(UNPACKED)
    if known and Path(known).is_dir():
        return Path(known)
    folder = Path(tempfile.mkdtemp(prefix="paimon_spark-golden-"))
    atexit.register(_remove, folder, os.getpid())
    for archive in sorted(ARCHIVES.glob("*.tar.xz")):
        unpack(archive, folder)
    os.environ[UNPACKED] = str(folder)
    return folder


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a fork
        shutil.rmtree(folder, ignore_errors=True)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack one table below `folder`; its files are as old as the unpacking."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter=_as_data_of_now)
    name = archive.name.removesuffix(".tar.xz")
    expected = ARCHIVES / f"{name}.json"
    if expected.exists():
        shutil.copyfile(expected, folder / name / EXPECTED)


def _as_data_of_now(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
    checked = tarfile.data_filter(member, path)
    return checked and checked.replace(mtime=None, deep=False)  # type: ignore[arg-type]


def packed(table: Path) -> bytes:
    """The archive of one unpacked table: sorted names, no times, no owners."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in sorted(table.rglob("*")):
            if file.is_file() and file != table / EXPECTED:
                entry = tarfile.TarInfo(file.relative_to(table.parent).as_posix())
                entry.size, entry.mode = file.stat().st_size, 0o644
                tar.addfile(entry, io.BytesIO(file.read_bytes()))
    return lzma.compress(archive.getvalue(), check=lzma.CHECK_CRC32, preset=9 | lzma.PRESET_EXTREME)


def pack(folder: Path) -> None:
    """Write archive and description of each table below `folder`."""
    for table in sorted(path for path in folder.iterdir() if path.is_dir()):
        (ARCHIVES / f"{table.name}.tar.xz").write_bytes(packed(table))
        if (table / EXPECTED).exists():
            shutil.copyfile(table / EXPECTED, ARCHIVES / f"{table.name}.json")


if __name__ == "__main__":
    pack(Path(sys.argv[1]))
