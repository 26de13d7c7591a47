"""The options that say where data files lie, and the spellings of paths.

Java: ``CoreOptions.dataFileExternalPaths`` (docs/internals/format.md §5). Options are checked so that nothing leads out
of the table; Java accepts ``..`` and absolute paths for the directory, and any part of a path for the prefix, and
cannot read such files afterwards.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from paimon_spark.errors import OptionError

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
