"""The branches of a table, by their directories.

Equals Java's ``FileSystemBranchManager`` where it looks up (docs/internals/format.md §9).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import PaimonError
from paimon_spark.spec.file_names import BRANCH_PREFIX
from paimon_spark.table.paths import MAIN_BRANCH, why_no_new_name

if TYPE_CHECKING:
    from paimon_spark.storage.file_io import FileIO
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
