"""Names of the files of a table, the options that say where data files lie, and the spellings of paths.

Java: ``FileStorePathFactory``, ``DataFilePathFactory``, ``CoreOptions.dataFileExternalPaths`` (docs/internals/format.md
§5). Options are checked so that nothing leads out of the table; Java accepts ``..`` and absolute paths for the
directory, and any part of a path for the prefix, and cannot read such files afterwards.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from sys import intern
from uuid import uuid4

from paimon_spark.errors import CorruptTableError, OptionError

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


DIRECTORY = "data-file.path-directory"
PREFIXES = ("data-file.prefix", "changelog-file.prefix")
EXTERNAL = "data-file.external-paths"

OWN_DIRECTORIES = ("snapshot", "changelog", "tag", "branch", "consumer", "manifest", "index", "statistics", "schema")
"""What a table keeps alongside its data files; the schemas come last, as they do when a table is deleted."""

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]*):(?=/)")
_BUCKETS = frozenset({"s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "wasb", "wasbs", "oss", "cosn", "obs"})
"""Schemes of stores whose host is a bucket or a container."""
_MOST_PREFIX_BYTES = 120


def plain_path(path: str) -> str:
    """A local path in one spelling: Java writes ``file:/a`` where an option may say ``file:///a``."""
    return re.sub(r"^file:/+", "/", path)


def one_spelling(path: str) -> str:
    """A path as all name it: as `plain_path`, and S3 by one of the schemes that engines have for it."""
    return re.sub(r"^s3[an]://", "s3://", plain_path(path))


def is_root(path: str) -> bool:
    """Return whether a path is the root of a file system, or a bucket: ``/``, ``file:///``, ``s3://bucket/``."""
    rest = _SCHEME.sub("", path)
    below = rest[2:].partition("/")[2] if rest.startswith("//") and not path.startswith("file:") else rest
    return not below.strip("/")


def scheme_of_root(root: str) -> str | None:
    """The scheme of an external path in lower case; None without."""
    found = _SCHEME.match(root)
    return None if found is None else found.group(1).lower()


def is_bucket(path: str) -> bool:
    """Return whether a path names a whole bucket, which may belong to one table alone."""
    found = _SCHEME.match(path)
    return (
        is_root(path)
        and found is not None
        and found.group(1).lower() in _BUCKETS
        and bool(path[found.end() :].strip("/"))
    )


def data_directory(options: Mapping[str, str]) -> str | None:
    """The directory between the table and its partitions, without slashes at its ends; None without the option.

    Raises:
        OptionError: it leads out of the table.
    """
    text = options.get(DIRECTORY)
    if text is None or not text.strip("/"):
        return None
    parts: list[str] = []
    for part in text.split("/"):
        if part == "..":
            if not parts:
                raise OptionError(_directory_error(text, "it leads out of the table"))
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if text.startswith("/"):
        raise OptionError(_directory_error(text, "it is no directory below the table, for it starts with a slash"))
    if not parts or any(_is_bad(character) for character in text) or ":" in text or "\\" in text:
        raise OptionError(_directory_error(text, "it is no name of a directory below the table"))
    return "/".join(parts)


def _directory_error(text: str, reason: str) -> str:
    return f"Option '{DIRECTORY}' = {text!r} cannot be used: {reason}. Give one or more names, such as 'data'."


def check_prefix(key: str, text: str) -> str:
    """The start of the names of data files, if files with such names lie where they belong.

    Raises:
        OptionError: they would lie elsewhere, or no engine could read them.
    """
    wrong = sorted({character for character in text if character in "/\\:" or _is_bad(character)})
    if wrong:
        raise OptionError(
            f"Option '{key}' = {text!r} cannot be used: names of files that start with it would hold {wrong[0]!r} and "
            "could not be read. Give a part of a name, such as 'data-'."
        )
    if len(text.encode("utf-8")) > _MOST_PREFIX_BYTES:
        raise OptionError(f"Option '{key}' cannot be used: it has more than {_MOST_PREFIX_BYTES} bytes.")
    return text


def external_roots(options: Mapping[str, str]) -> tuple[str, ...]:
    """The external paths, where files of the table may be read outside of it, without slashes at their ends.

    Raises:
        OptionError: one of them is everything, or leads elsewhere than it says.
    """
    roots = []
    for text in options.get(EXTERNAL, "").split(","):
        root = text.strip()
        if not root:
            continue
        if is_root(root) and not is_bucket(root):
            raise OptionError(f"Option '{EXTERNAL}' names {root}, which is a whole file system: name a directory.")
        if {".", ".."} & set(root.split("/")) or "\0" in root:
            raise OptionError(f"Option '{EXTERNAL}' names {root}: write the path without '.' and '..'.")
        roots.append(root.rstrip("/"))
    return tuple(roots)


def validate_file_location(options: Mapping[str, str]) -> None:
    """Check the options of a new or altered schema.

    Raises:
        OptionError: files would lie outside the table, or where no engine reads them.
    """
    if DIRECTORY in options:
        first = (data_directory(options) or "").partition("/")[0]
        if not first or first in OWN_DIRECTORIES:
            reason = f"the table keeps other files in '{first}'" if first else "it is empty"
            raise OptionError(_directory_error(options[DIRECTORY], reason))
    for key in PREFIXES:
        if key in options:
            check_prefix(key, options[key])
    for root in external_roots(options):
        if is_root(root):
            raise OptionError(f"Option '{EXTERNAL}' names {root}, which is a whole bucket: name a directory in it.")
        if _SCHEME.match(root) is None:
            raise OptionError(
                f"Option '{EXTERNAL}' names {root}: scheme should not be null. Write it as file:/directory, "
                "s3://bucket/directory, …"
            )


def _is_bad(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
