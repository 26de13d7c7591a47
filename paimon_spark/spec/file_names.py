"""Names of the files of a table.

Java: ``FileStorePathFactory``, ``DataFilePathFactory`` (docs/internals/format.md §5).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from sys import intern
from uuid import uuid4

from paimon_spark.errors import CorruptTableError

SNAPSHOT_PREFIX = "snapshot-"
CHANGELOG_PREFIX = "changelog-"
SCHEMA_PREFIX = "schema-"
BRANCH_PREFIX = "branch-"
CONSUMER_PREFIX = "consumer-"
STATISTICS_PREFIX = "stat-"
BUCKET_PREFIX = "bucket-"
POSTPONE_BUCKET = -2
MANAGED_BLOB_SUFFIX = ".managed.blob"
"""Of files with values of BLOB columns that many data files may share."""
BLOB_REFERENCES_SUFFIX = ".blobref"
"""Of the companion file of a data file that says which of those it needs."""
POSTPONED_INFIX = "-w-"
"""Ends the prefix that the files of one writer of a postponed bucket share."""
LATEST_HINT = "LATEST"
EARLIEST_HINT = "EARLIEST"

_EXTENSIONS = {
    **{"none": None, "gzip": "gz", "bzip2": "bz2", "deflate": "deflate"},
    **{"snappy": "snappy", "lz4": "lz4", "zstd": "zst"},
}
COMPACTED_CHANGELOG_PREFIX = "compacted-changelog-"
_COMPACTED_CHANGELOG = re.compile(
    r"(?P<stem>[^/$.]+)\$(?P<bucket>\d{1,10})-(?P<whole>\d{1,18})(-(?P<offset>\d{1,18})-(?P<length>\d{1,18}))?"
    r"\.(?P<extension>cc-[^/.]+)",
    re.ASCII,
)
_NO_NAMES = frozenset(("", ".", ".."))
_NAMES_AT_ONCE = 10_000
_OF_PATHS = ("/", "\\", "\0")
_COMPRESSED = frozenset(extension for extension in _EXTENSIONS.values() if extension)
_TEXT_FORMATS = frozenset(("json", "csv"))


def numbered_name_id(name: str, prefix: str) -> int | None:
    """The number of a file such as `snapshot-12`, None when the name is not of this form."""
    digits = name[len(prefix) :]
    if not name.startswith(prefix) or not digits.isascii() or not digits.isdigit() or len(digits) > 19:
        return None
    return int(digits)


def bucket_name(bucket: int) -> str:
    """The directory name of a bucket."""
    return f"{BUCKET_PREFIX}postpone" if bucket == POSTPONE_BUCKET else f"{BUCKET_PREFIX}{bucket}"


def postponed_writer(name: str) -> str:
    """The prefix that all postponed files of one writer share (Java ``PostponeBucketFileStoreWrite.getWriterPrefix``).

    Raises:
        CorruptTableError: the name is none of a postponed file.
    """
    end = name.rfind(POSTPONED_INFIX)
    if end < 0:
        raise CorruptTableError(f"{name} is not the name of a postponed file.", path=name)
    return name[: end + len(POSTPONED_INFIX)]


def data_file_extension(file_format: str, compression: str | None, *, include_compression: bool = False) -> str:
    """The end of a data file's name, such as `.parquet`.

    Args:
        file_format: Identifier of the format.
        compression: The option's text; it shows in the names of CSV and JSON files, others on request.
        include_compression: Option `file.suffix.include.compression`: `.zst.parquet`.
    """
    shown = _EXTENSIONS.get(compression.lower(), compression) if compression else None
    if shown and file_format.lower() in _TEXT_FORMATS:
        return f".{file_format}.{shown}"
    return f".{shown}.{file_format}" if shown and include_compression else f".{file_format}"


def is_blob_file(name: str) -> bool:
    """Whether a data file holds the values of one BLOB column."""
    return name.endswith(".blob")


def is_vector_file(name: str) -> bool:
    """Whether a data file holds VECTOR columns alone."""
    return ".vector." in name


def data_file_format(name: str) -> str:
    """The format of a data file by its name: the last extension, or the one before where the last is a compression's.

    Raises:
        CorruptTableError: The name has no extension.
    """
    stem, dot, extension = name.rpartition(".")
    if extension == "parquet" and dot and not name.startswith(COMPACTED_CHANGELOG_PREFIX):
        return "parquet"
    if dot and extension in _COMPRESSED:
        _, dot, extension = stem.rpartition(".")
    if not dot or not extension:
        raise CorruptTableError(f"'{name}' is not a legal file name of a data file: it has no extension.", path=name)
    if name.startswith(COMPACTED_CHANGELOG_PREFIX):
        extension = extension.removeprefix("cc-")
    return intern(extension.lower())


@dataclass(frozen=True, slots=True)
class FileRegion:
    """A part of a file that is a whole file of its format by itself."""

    path: str
    offset: int
    length: int


def compacted_changelog_region(path: str) -> FileRegion | None:
    """Where the bytes lie of a changelog file that Flink has joined with others.

    Java: ``CompactedChangelogPathResolver``.

    Args:
        path: of the file as its manifest entry names it. Only the first of the joined files is really there.

    Returns:
        None for any other file.

    Raises:
        CorruptTableError: the name does not say where.
    """
    directory, _, name = path.rpartition("/")
    if not name.startswith(COMPACTED_CHANGELOG_PREFIX) or ".cc-" not in name:
        return None
    match = _COMPACTED_CHANGELOG.fullmatch(name)
    if match is None:
        raise CorruptTableError(f"'{name[:200]}' is not the name of a compacted changelog file.", path=path)
    whole = int(match["whole"])
    if match["offset"] is None:
        return FileRegion(path, 0, whole)
    buckets = directory.rpartition("/")[0]
    real = f"{match['stem']}${match['bucket']}-{match['whole']}.{match['extension']}"
    return FileRegion(
        f"{buckets}/{bucket_name(int(match['bucket']))}/{real}", int(match["offset"]), int(match["length"])
    )


def check_file_name(name: str, *, path: str | None = None) -> str:
    """The name itself, if it is the name of a file inside the directory it is meant for.

    Raises:
        CorruptTableError: It would lead elsewhere.
    """
    if name in _NO_NAMES or any(sign in name for sign in _OF_PATHS):
        raise CorruptTableError(f"'{name[:200]}' is not the name of a file of this table.", path=path)
    return name


def check_file_names(names: Sequence[str], directories: Sequence[str]) -> None:
    """Check many names at once as `check_file_name` does.

    Args:
        names: of files.
        directories: where each is meant to be, for errors.

    Raises:
        CorruptTableError: one would lead elsewhere.
    """
    for start in range(0, len(names), _NAMES_AT_ONCE):
        some = names[start : start + _NAMES_AT_ONCE]
        together = "".join(some)
        if any(sign in together for sign in _OF_PATHS) or not _NO_NAMES.isdisjoint(some):
            for name, directory in zip(some, directories[start : start + _NAMES_AT_ONCE], strict=True):
                check_file_name(name, path=directory)


@dataclass(frozen=True, slots=True)
class FileNameSequence:
    """Names with one UUID and a counter from 0, as one Java path factory gives them: `<prefix><uuid>-<n><suffix>`."""

    prefix: str
    suffix: str
    _uuid: str
    _counter: count[int]

    @staticmethod
    def start(prefix: str, suffix: str = "") -> FileNameSequence:
        """A new sequence; its UUID keeps its names apart from all others."""
        return FileNameSequence(prefix, suffix, str(uuid4()), count())

    def ending(self, suffix: str) -> FileNameSequence:
        """Names with another end that share the counter."""
        return replace(self, suffix=suffix)

    def next(self) -> str:
        """The next name."""
        return f"{self.prefix}{self._uuid}-{next(self._counter)}{self.suffix}"


def manifest_names() -> FileNameSequence:
    """Names of manifests: `manifest-<uuid>-<n>`."""
    return FileNameSequence.start("manifest-")


def manifest_list_names() -> FileNameSequence:
    """Names of manifest lists: `manifest-list-<uuid>-<n>`."""
    return FileNameSequence.start("manifest-list-")


def index_manifest_names() -> FileNameSequence:
    """Names of index manifests: `index-manifest-<uuid>-<n>`."""
    return FileNameSequence.start("index-manifest-")


def index_file_names() -> FileNameSequence:
    """Names of index files: `index-<uuid>-<n>`."""
    return FileNameSequence.start("index-")
