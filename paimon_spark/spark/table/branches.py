"""The part of a `PaimonTable` about branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from paimon_spark.maintain.files.lost_snapshot import accept_lost
from paimon_spark.maintain.refs import branches
from paimon_spark.maintain.refs.fast_forward import fast_forward
from paimon_spark.maintain.refs.merge_branch import merge_branch
from paimon_spark.spark.table.handle import TablePart
from paimon_spark.table.paths import MAIN_BRANCH

if TYPE_CHECKING:
    pass


class Branches(TablePart):
    """Methods that make, move and delete branches. All of them run on the driver, without a Spark job."""

    def create_branch(
        self, name: str, *, tag: str | None = None, snapshot_id: int | None = None, ignore_if_exists: bool = False
    ) -> None:
        """Make a branch: a line of commits of its own, which shares the data files it begins with.

        It is read and written by its name: ``PaimonTable.for_path(spark, "<path>$branch_<name>")``.

        Args:
            name: of the branch; not ``main``, not only digits, no slash in it.
            tag: the branch begins with the rows of this tag; when neither this nor `snapshot_id` is given, it begins
                with this table's columns and no rows.
            snapshot_id: the branch begins with the rows of this snapshot. A tag ``branch-<name>`` is made for it, which
                keeps these rows when the snapshot expires; keep that tag as long as the branch.
            ignore_if_exists: do nothing instead of failing when there is such a branch.

        Raises:
            SnapshotNotFoundError: there is no such tag or snapshot.
            OptionError: both are given.
            PaimonError: there is such a branch, or its name is not allowed.
        """
        branches.create_branch(
            self.table.load(), name, tag=tag, snapshot_id=snapshot_id, ignore_if_exists=ignore_if_exists
        )

    def delete_branch(
        self, name: str | Sequence[str], *, ignore_if_missing: bool = False, accept_lost_snapshot: bool = False
    ) -> None:
        """Delete a branch with its snapshots and tags; data files that only it had are left for orphan cleaning.

        Args:
            name: of the branch; several in a list or between commas.
            ignore_if_missing: pass over branches that do not exist instead of failing.
            accept_lost_snapshot: give up a commit whose snapshot is missing although LATEST names it, instead of
                failing: its files are garbage from now on, and its id is taken again.

        Raises:
            PaimonError: there is no such branch, or the table's options read it (`scan.fallback-branch`).
        """
        branches.delete_branch(
            accept_lost(self.table.load(), accept_lost_snapshot), name, ignore_if_missing=ignore_if_missing
        )

    def rename_branch(self, name: str, new_name: str) -> None:
        """Rename a branch.

        Raises:
            PaimonError: there is no such branch, there is one of the new name, or that name is not allowed.
        """
        branches.rename_branch(self.table.load(), name, new_name)

    def fast_forward(self, branch: str, *, accept_lost_snapshot: bool = False) -> int:
        """Bring the table to the state of a branch; return the id of its latest snapshot.

        What was committed to the table after the branch began is forgotten, tags of it too. The branch stays.

        Args:
            branch: its name.
            accept_lost_snapshot: give up a commit whose snapshot is missing although LATEST names it, instead of
                failing: its files are garbage from now on, and its id is taken again.

        Raises:
            PaimonError: there is no such branch, or it has no snapshot.
            CommitError: another writer committed meanwhile.
        """
        return fast_forward(accept_lost(self.table.load(), accept_lost_snapshot), branch)

    def merge_branch(self, source: str, target: str = MAIN_BRANCH) -> int | None:
        """Append the rows that one branch has and another lacks; return the new snapshot's id, None without any.

        For append tables only, whose two branches have all their snapshots from the first on, appends only.

        Args:
            source: the branch with the rows.
            target: the branch that gets them.

        Raises:
            PaimonError: a branch does not exist, or its history or schema does not allow it.
            UnsupportedError: the table has primary keys.
        """
        return merge_branch(self.table.load(), source, target)
