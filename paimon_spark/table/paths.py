"""Where the files of a table live: every path below a table directory is made here.

Equals Java's ``FileStorePathFactory``, ``DataFilePathFactory``, ``SchemaManager``, ``SnapshotManager`` and
``TagManager`` paths (docs/internals/format.md §1, §2, §5, §6, §9). Names that were read from table files are checked
before they become a path, so that no table can lead a reader out of its own directory.
"""

from __future__ import annotations

import os
import re
import unicodedata
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from paimon_spark.errors import PaimonError, SchemaError, UnsupportedError
from paimon_spark.spec.file_names import check_file_name
from paimon_spark.storage.store_options import scheme_of

if TYPE_CHECKING:
    from paimon_spark.spec.manifest import DataFileMeta, IndexManifestEntry
    from paimon_spark.table.data_layout import DataLayout

MAIN_BRANCH = "main"
"""The branch whose metadata lies in the table directory itself."""

DATABASE_SUFFIX = ".db"
SYSTEM_DIRECTORY = "sys.db"
"""Where the tables of the database ``sys`` would be if they had files."""

_SLASHES = re.compile(r"(?<=[^:/])/{2,}")
_BRANCH_PREFIX = "branch_"
_MOST_NAME_BYTES = 255
"""Maximum bytes of a file name on local disks; object stores allow more."""
LONGEST_FILE_PART = 199
"""Maximum bytes of a tag's or consumer's name, which gets a prefix and a suffix while its file is written."""


@dataclass(frozen=True, slots=True)
class TableName:
    """What a path like ``/wh/db.db/t$branch_b$snapshots`` names."""

    root: str
    """The table directory, without a trailing slash."""
    branch: str = MAIN_BRANCH
    system_table: str | None = None
    """Name of the system table (``snapshots``), None for the table itself."""
    names_branch: bool = field(default=False, compare=False)
    """Whether the path says which branch, be it the main one."""


def refuse_home(path: str) -> None:
    """Refuse a path that a shell would expand, and that would be a directory of the name ``~`` here.

    Raises:
        PaimonError: it begins with ``~``.
    """
    if path == "~" or path.startswith("~/"):
        raise PaimonError(f"'~' is not expanded in the path '{path}': give os.path.expanduser('{path}')")


def single_slashes(path: str) -> str:
    """A path without parts that have no name, as Java's engines write it: to a store ``a//b`` is not ``a/b``."""
    return _SLASHES.sub("/", path)


def parse_table_path(path: str) -> TableName:
    """Split ``path`` into table directory, branch and system table (Java: ``Identifier``).

    Raises:
        PaimonError: the last part of the path has more than a branch and a system table behind its name.
    """
    refuse_home(path)
    trimmed = single_slashes(path).rstrip("/")
    parent, slash, last = trimmed.rpartition("/")
    name, *suffixes = last.split("$")
    branch, system_table, names_branch = MAIN_BRANCH, None, False
    if suffixes and suffixes[0].startswith(_BRANCH_PREFIX):
        branch, names_branch = suffixes.pop(0)[len(_BRANCH_PREFIX) :], True
    if suffixes:
        system_table = suffixes.pop(0)
    if suffixes or not name or name in (".", ".."):
        raise PaimonError(f"Cannot read a table name from '{path}': it is <table>[$branch_<branch>][$<system table>].")
    return TableName(f"{parent}{slash}{name}", branch, system_table, names_branch)


def system_table_in(path: str) -> str | None:
    """The name of the system table that a path or a table's name ends in (``t$snapshots``); None of a table itself.

    Raises:
        PaimonError: as of `parse_table_path`.
    """
    return parse_table_path(path).system_table if "$" in path else None


def refuse_system_database(root: str) -> None:
    """Refuse to write where the database of the system tables is: ``<warehouse>/sys.db/x``.

    Catalogs never look there, so that such a table could be found by its path only.

    Raises:
        UnsupportedError: the table directory is in ``sys.db``.
    """
    if root.rpartition("/")[0].rpartition("/")[2] == SYSTEM_DIRECTORY:
        raise UnsupportedError(
            f"{root} cannot be written: the database sys has the system tables of the warehouse, and no catalog finds "
            "a table there. Write to another database, such as <warehouse>/default.db/<table>."
        )


def is_plain_name(name: str) -> bool:
    """Return whether ``name`` (of a table, a tag, a branch, a consumer) may become part of a file name."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return bool(name.strip()) and not any(character in name for character in "/\\\0") and name not in (".", "..")


def why_no_new_name(name: str, *, longest_bytes: int = _MOST_NAME_BYTES) -> str | None:
    """Say why ``name`` cannot be given to something new; None where it can.

    Args:
        name: of something that becomes a file or a directory.
        longest_bytes: of the name in UTF-8; less than a file's name may have, where something is put before or behind.
    """
    if not isinstance(name, str):
        return "it is no text"
    if not name.strip():
        return "it must not be blank"
    if any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in name):
        return "it must not hold control characters or line breaks"
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return "it holds half of a surrogate pair, which is no character"
    if not is_plain_name(name):
        return "it must not hold a slash or a backslash, nor be '.' or '..', for it becomes the name of a file"
    if size > longest_bytes:
        return f"it has {size} bytes in UTF-8, and file systems take {longest_bytes}"
    return None


def check_new_table_name(name: str, what: str = "table") -> None:
    """Check that a table or database may be called ``name``.

    Raises:
        SchemaError: it cannot, or no engine could open it by this name.
    """
    reason = why_no_new_name(name, longest_bytes=_MOST_NAME_BYTES - len(".db"))
    if reason is None and ":" in name:
        reason = "Java's engines cannot open a directory with a colon in its name"
    if reason is None and what != "database" and "$" in name:
        raise SchemaError(
            f"{what.capitalize()} name {name} cannot contain '$', which separates system tables and branches."
        )
    if reason is not None:
        raise SchemaError(f"{name[:_MOST_NAME_BYTES]!r} cannot be the name of a {what}: {reason}.")


def is_path_name(name: str) -> bool:
    """Return whether the name of a table in a statement is its path, as in ``paimon.`/data/wh/db.db/t` ``.

    Raises:
        SchemaError: it has a slash and is no absolute path: it would be relative to the directory in which the driver
            was started.
    """
    if "/" not in name:
        return False
    if not name.startswith("/") and not scheme_of(name):
        raise SchemaError(
            f"'{name}' cannot be the name of a table: a name must not hold a slash. A table that is named by its path "
            "is named by the whole of it, such as `/data/wh/db.db/t` or `s3://bucket/wh/db.db/t`."
        )
    return True


class _Directory:
    """A directory below that of a branch, or below the table's where the branches share it."""

    def __init__(self, name: str, *, shared: bool = False) -> None:
        self._name = name
        self._shared = shared

    def __get__(self, paths: TablePaths, owner: type) -> str:
        return f"{paths.root if self._shared else paths.branch_root}/{self._name}"


@dataclass(frozen=True, slots=True)
class TablePaths:
    """Paths of one branch of one table. Data, manifest, index and statistics files are shared by all branches."""

    root: str
    """The table directory, without a trailing slash."""
    branch: str = MAIN_BRANCH
    layout: DataLayout | None = None
    """Where the data files are; None where only metadata is read."""

    schema_dir = _Directory("schema")
    """The directory of the schema files."""
    snapshot_dir = _Directory("snapshot")
    """The directory of the snapshot files and their hints."""
    changelog_dir = _Directory("changelog")
    """The directory of the long-lived changelog files."""
    tag_dir = _Directory("tag")
    """The directory of the tag files."""
    consumer_dir = _Directory("consumer")
    """The directory of the consumer files."""
    branch_dir = _Directory("branch", shared=True)
    """The directory that holds the branches of the table."""
    manifest_dir = _Directory("manifest", shared=True)
    """The directory of manifests, manifest lists and index manifests."""
    index_dir = _Directory("index", shared=True)
    """The directory of index files (hash indexes, deletion vectors)."""
    statistics_dir = _Directory("statistics", shared=True)
    """The directory of statistics files."""

    def __post_init__(self) -> None:
        """Check the name of the branch: it may come from an option of the table.

        Raises:
            PaimonError: it cannot be part of a path.
        """
        if not is_plain_name(self.branch):
            raise PaimonError(f"Branch name '{self.branch}' is not allowed: it must not be blank nor hold a slash.")

    @property
    def branch_root(self) -> str:
        """The directory of the branch's metadata; the table directory itself for ``main``."""
        return self.root if self.branch == MAIN_BRANCH else f"{self.root}/branch/branch-{self.branch}"

    def schema_path(self, schema_id: int) -> str:
        """Return the path of ``schema-<id>``."""
        return f"{self.schema_dir}/schema-{schema_id}"

    def snapshot_path(self, snapshot_id: int) -> str:
        """Return the path of ``snapshot-<id>``."""
        return f"{self.snapshot_dir}/snapshot-{snapshot_id}"

    def changelog_path(self, snapshot_id: int) -> str:
        """Return the path of ``changelog-<id>``."""
        return f"{self.changelog_dir}/changelog-{snapshot_id}"

    @property
    def latest_hint_path(self) -> str:
        """The path of the LATEST hint."""
        return f"{self.snapshot_dir}/LATEST"

    @property
    def earliest_hint_path(self) -> str:
        """The path of the EARLIEST hint."""
        return f"{self.snapshot_dir}/EARLIEST"

    def tag_path(self, name: str) -> str:
        """Return the path of the tag ``name``.

        Raises:
            PaimonError: the name cannot be part of a file name.
        """
        if not is_plain_name(name):
            raise PaimonError(f"Tag name '{name}' is not allowed: it must not be blank nor hold a slash.")
        return f"{self.tag_dir}/tag-{name}"

    def manifest_path(self, name: str) -> str:
        """Return the path of the manifest, manifest list or index manifest ``name``; the name is checked."""
        return f"{self.manifest_dir}/{check_file_name(name, path=self.manifest_dir)}"

    def index_path(self, name: str) -> str:
        """Return the path of the index file ``name``; the name is checked."""
        return f"{self.index_dir}/{check_file_name(name, path=self.index_dir)}"

    def index_file_path(self, entry: IndexManifestEntry) -> str:
        """Return the path of the index file of an index manifest, which options put elsewhere than into `index_dir`.

        Raises:
            CorruptTableError: the file's name or external path leads out of where the table's files may lie.
        """
        layout = self._known_layout()
        directory = self.index_dir
        if layout.index_with_data:
            directory = self.bucket_dir(layout.partition_path(entry.partition), entry.bucket)
        return layout.data_file_path(directory, entry.file_name, entry.external_path)

    def statistics_path(self, name: str) -> str:
        """Return the path of the statistics file ``name``; the name is checked."""
        return f"{self.statistics_dir}/{check_file_name(name, path=self.statistics_dir)}"

    def for_branch(self, branch: str) -> TablePaths:
        """Return the paths of another branch of the same table."""
        return replace(self, branch=branch)

    def partition_path(self, partition: bytes) -> str:
        """Return ``k=v/k2=v2`` of partition bytes; empty when the table is not partitioned."""
        return self._known_layout().partition_path(partition)

    def bucket_dir(self, partition: str, bucket: int) -> str:
        """Return the directory of a bucket; ``partition`` is ``k=v/k2=v2``, empty when not partitioned."""
        return self._known_layout().bucket_dir(self.root, partition, bucket)

    def data_file_path(self, partition: bytes, bucket: int, file: DataFileMeta) -> str:
        """Return the path of a data file, inside the table or where its options allow external files.

        Raises:
            CorruptTableError: the file's name or external path leads elsewhere.
        """
        layout = self._known_layout()
        directory = self.bucket_dir(layout.partition_path(partition), bucket)
        return layout.data_file_path(directory, file.file_name, file.external_path)

    def _known_layout(self) -> DataLayout:
        if self.layout is None:
            raise ValueError("These paths were made without a schema and know no data files.")
        return self.layout


def plain_path(path: str) -> str:
    """A local path without its scheme; no path has a slash at its end."""
    return path.removeprefix("file://").removeprefix("file:").rstrip("/")
