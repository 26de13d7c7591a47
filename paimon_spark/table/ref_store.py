"""The branches of a table, by their directories, and the tags of one: snapshots with a name, kept when others expire.

Equals Java's ``FileSystemBranchManager`` where it looks up, ``TagManager`` and ``Tag`` (docs/internals/format.md §9,
docs/internals/spec/tags-proposal.txt).
"""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from paimon_spark.errors import PaimonError, SnapshotNotFoundError
from paimon_spark.spec.file_names import BRANCH_PREFIX
from paimon_spark.spec.tag import Tag
from paimon_spark.table.paths import LONGEST_FILE_PART, MAIN_BRANCH, why_no_new_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.storage.file_io import FileIO, FileStatus
    from paimon_spark.table.paths import TablePaths

_MOST_BYTES = 255 - len(BRANCH_PREFIX)


def check_new_branch_name(name: str) -> None:
    """Check that a branch may be called ``name``.

    Raises:
        PaimonError: it is blank, only digits, the name of the main branch, or cannot be part of a path.
    """
    if name == MAIN_BRANCH:
        raise PaimonError(f"Branch name '{name}' is the default branch and cannot be used.")
    if not name.strip():
        raise PaimonError(f"Branch name '{name}' is blank.")
    if name.isdecimal():
        raise PaimonError(f"Branch name cannot be pure numeric string but is '{name}'.")
    reason = why_no_new_name(name, longest_bytes=_MOST_BYTES)
    if reason is not None:
        raise PaimonError(f"Branch name '{name[:_MOST_BYTES]}' is not allowed: {reason}.")


class BranchStore:
    """Looks up the branches of a table other than ``main``. Nothing is cached."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def created(self) -> dict[str, int]:
        """Return the branches by name, with the time of their directory in epoch milliseconds (0 where unknown)."""
        listed = self._file_io.list_names(self._paths.branch_dir)
        found = {
            entry.name.removeprefix(BRANCH_PREFIX): entry.mtime_millis or 0
            for entry in listed
            if entry.is_dir and entry.name.startswith(BRANCH_PREFIX) and entry.name != BRANCH_PREFIX
        }
        return dict(sorted(found.items()))

    def names(self) -> list[str]:
        """Return the names of the branches, sorted."""
        return list(self.created())

    def exists(self, name: str) -> bool:
        """Return whether there is a branch ``name``; ``main`` is always there."""
        return name == MAIN_BRANCH or name in self.created()

    def check(self, name: str) -> None:
        """Check that there is a branch ``name``.

        Raises:
            PaimonError: there is none; the message names those there are.
        """
        if self.exists(name):
            return
        names = self.names()
        existing = f"The branches are: {', '.join(names)}." if names else "The table has no branches."
        raise PaimonError(f"Branch name '{name}' doesn't exist. {existing}")


_PREFIX = "tag-"
_ASIDE = ".deleting-tag-"


class TagStore:
    """Looks up, creates, renames and deletes the tags of one branch. Nothing is cached."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._paths = paths

    def names(self) -> list[str]:
        """Return the names of all tags, sorted."""
        return sorted(self.files())

    def files(self) -> dict[str, FileStatus]:
        """Return the files of all tags by their names."""
        listed = self._file_io.list_names(self._paths.tag_dir)
        return {
            entry.name[len(_PREFIX) :]: entry
            for entry in listed
            if not entry.is_dir and entry.name.startswith(_PREFIX) and entry.name != _PREFIX
        }

    def exists(self, name: str) -> bool:
        """Return whether there is a tag ``name``."""
        return self._file_io.file_exists(self._paths.tag_path(name))

    def get(self, name: str) -> Tag:
        """Return the tag ``name``.

        Raises:
            SnapshotNotFoundError: there is no such tag; the message names the tags that exist.
            CorruptTableError: its file cannot be read as a tag.
        """
        path = self._paths.tag_path(name)
        try:
            data = self._file_io.read_bytes(path)
        except FileNotFoundError as error:
            raise SnapshotNotFoundError(self._missing(name)) from error
        return Tag.from_json(data, path=path)

    def list(self, files: Mapping[str, FileStatus] | None = None) -> dict[str, Tag]:
        """Return all tags by name, ordered by the snapshot they hold, then by name.

        Args:
            files: what `files` has just returned, where it was called.
        """
        found = {}
        for name, entry in sorted((self.files() if files is None else files).items()):
            path = self._paths.tag_path(name)
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                found[name] = Tag.from_json(self._file_io.read_listed(path, entry), path=path)
        return dict(sorted(found.items(), key=lambda item: (item[1].snapshot.id, item[0])))

    def begin_deletion(self, name: str) -> None:
        """Write a copy of the tag ``name`` that says that it is being deleted; no engine takes this file for a tag."""
        path = self._paths.tag_path(name)
        self._file_io.write_bytes(self._aside_path(name), self._file_io.read_bytes(path), overwrite=True)

    def deletions_begun(self) -> dict[str, Snapshot]:
        """Return the snapshots of tags whose deletion was interrupted; nearly always none."""
        listed = self._file_io.list_names(self._paths.tag_dir)
        names = [entry.name.removeprefix(_ASIDE) for entry in listed if entry.name.startswith(_ASIDE)]
        found = {}
        for name in sorted(names):
            with contextlib.suppress(FileNotFoundError):  # ended meanwhile
                path = self._aside_path(name)
                found[name] = Tag.from_json(self._file_io.read_bytes(path), path=path).snapshot
        return found

    def end_deletion(self, name: str) -> None:
        """Note that the deletion of the tag ``name`` has ended."""
        self._file_io.delete_quietly(self._aside_path(name))

    def _aside_path(self, name: str) -> str:
        return f"{self._paths.tag_dir}/{_ASIDE}{name}"

    def create(
        self,
        name: str,
        snapshot: Snapshot,
        *,
        time_retained: timedelta | None = None,
        ignore_if_exists: bool = False,
        create_time: datetime | None = None,
    ) -> bool:
        """Write the tag ``name`` for ``snapshot``; return whether it was written.

        Args:
            name: not blank; no slash, no control characters, 199 bytes at most.
            snapshot: what the tag holds.
            time_retained: how long until the tag expires; None keeps it forever (the file is then the plain snapshot).
            ignore_if_exists: return False instead of failing when the tag exists.
            create_time: local wall clock time that is written with ``time_retained``; now when not given.

        Raises:
            PaimonError: the name is not allowed, or the tag exists.
        """
        path = self._new_path(name)
        retained_from = None if time_retained is None else (create_time or datetime.now())
        tag = Tag(snapshot=snapshot, create_time=retained_from, time_retained=time_retained)
        if not self._file_io.create_exclusive(path, tag.to_json().encode("utf-8")):
            if ignore_if_exists:
                return False
            raise PaimonError(f"Tag '{name}' already exists.")
        return True

    def replace(self, name: str, snapshot: Snapshot, *, time_retained: timedelta | None = None) -> None:
        """Point the existing tag ``name`` to ``snapshot``.

        Raises:
            SnapshotNotFoundError: there is no such tag.
        """
        self.get(name)
        tag = Tag(
            snapshot=snapshot,
            create_time=None if time_retained is None else datetime.now(),
            time_retained=time_retained,
        )
        self._file_io.write_bytes(self._paths.tag_path(name), tag.to_json().encode("utf-8"), overwrite=True)

    def delete(self, name: str) -> None:
        """Delete the tag file ``name``; the caller deletes the data files that only it kept.

        Raises:
            SnapshotNotFoundError: there is no such tag.
        """
        path = self._paths.tag_path(name)
        if not self._file_io.file_exists(path):
            raise SnapshotNotFoundError(self._missing(name))
        self._delete(path)

    def rename(self, name: str, new_name: str) -> None:
        """Rename a tag: it is written under the new name, then deleted.

        A rename that was stopped in between is finished when it is run again: the new tag holds the same then.

        Raises:
            SnapshotNotFoundError: there is no tag ``name``.
            PaimonError: there is a tag ``new_name``, or its name is not allowed.
        """
        source, target = self._paths.tag_path(name), self._new_path(new_name)
        try:
            data = self._file_io.read_bytes(source)
        except FileNotFoundError as error:
            raise SnapshotNotFoundError(self._missing(name)) from error
        if source == target or not (self._file_io.create_exclusive(target, data) or self._holds(target, data)):
            raise PaimonError(f"Tag '{new_name}' already exists.")
        self._delete(source)

    def _holds(self, path: str, data: bytes) -> bool:
        try:
            return self._file_io.read_bytes(path) == data
        except FileNotFoundError:  # deleted meanwhile
            return False

    def _delete(self, path: str) -> None:
        if not self._file_io.delete_quietly(path):
            self._file_io.check_deletes(path)
            raise PaimonError(
                f"The tag file {path} could not be deleted. See that its directory can be written, then delete the tag."
            )

    def _new_path(self, name: str) -> str:
        reason = why_no_new_name(name, longest_bytes=LONGEST_FILE_PART)
        if reason is not None:
            raise PaimonError(f"Tag name '{str(name)[:LONGEST_FILE_PART]}' is not allowed: {reason}.")
        return self._paths.tag_path(name)

    def _missing(self, name: str) -> str:
        names = self.names()
        existing = f"The tags are: {', '.join(names)}." if names else "The table has no tags."
        return f"Tag '{name}' doesn't exist. {existing}"
