"""The parts of a `PaimonTable` about tags, branches and going back to an earlier state."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError
from paimon_spark.maintain.files.repairs import accept_lost
from paimon_spark.maintain.refs import branches, rollback, tags
from paimon_spark.maintain.refs.fast_forward import fast_forward, merge_branch
from paimon_spark.maintain.refs.tags import run_automatic_tags
from paimon_spark.spark.table.handle import TablePart
from paimon_spark.spec.java_text import epoch_millis
from paimon_spark.table.paths import MAIN_BRANCH

if TYPE_CHECKING:
    from datetime import timedelta


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


class Tags(TablePart):
    """Methods that name snapshots and go back to them. All of them run on the driver, without a Spark job."""

    def create_tag(
        self,
        name: str,
        *,
        snapshot_id: int | None = None,
        time_retained: timedelta | None = None,
        ignore_if_exists: bool = False,
    ) -> None:
        """Give a snapshot a name that keeps it readable after it expires.

        Args:
            name: of the tag; no slash in it.
            snapshot_id: the snapshot; the latest one when not given. One that has expired serves if a tag holds it.
            time_retained: how long the tag lives; when not given, as long as the table's option
                `tag.default-time-retained` says, or for ever. (``CALL sys.create_tag`` without it: for ever, as with
                the official connector.)
            ignore_if_exists: leave a tag of that name as it is instead of failing.

        Raises:
            SnapshotNotFoundError: there is no such snapshot, or none at all.
            PaimonError: there is such a tag, or its name is not allowed.
        """
        table = self.table.load()
        retained = tags.default_time_retained(table) if time_retained is None else time_retained
        tags.create_tag(table, name, snapshot_id=snapshot_id, time_retained=retained, ignore_if_exists=ignore_if_exists)

    def create_tag_from_timestamp(self, name: str, time: datetime, *, time_retained: timedelta | None = None) -> int:
        """Give a name to the first snapshot that was committed at or after a time; return the snapshot's id.

        Args:
            name: of the tag.
            time: a time with its zone, or a local one.
            time_retained: as for `create_tag`.

        Raises:
            SnapshotNotFoundError: no snapshot is that young.
            PaimonError: there is such a tag, or its name is not allowed.
        """
        table = self.table.load()
        retained = tags.default_time_retained(table) if time_retained is None else time_retained
        return tags.create_tag_from_timestamp(table, name, epoch_millis(time), time_retained=retained).id

    def create_tag_from_watermark(self, name: str, watermark: int, *, time_retained: timedelta | None = None) -> int:
        """Give a name to the first snapshot whose watermark is as late or later; return the snapshot's id.

        Args:
            name: of the tag.
            watermark: epoch milliseconds.
            time_retained: as for `create_tag`.

        Raises:
            SnapshotNotFoundError: no watermark is that late.
            PaimonError: there is such a tag, or its name is not allowed.
        """
        table = self.table.load()
        retained = tags.default_time_retained(table) if time_retained is None else time_retained
        return tags.create_tag_from_watermark(table, name, watermark, time_retained=retained).id

    def create_automatic_tags(self) -> list[str]:
        """Make the tags that the option `tag.automatic-creation` asks for and that are due; return their names.

        Every write of this package does so; this is for tables with `write-only`, and for those that nobody writes.
        Tags whose time is over expire.
        """
        return run_automatic_tags(self.table.load())

    def replace_tag(self, name: str, *, snapshot_id: int | None = None, time_retained: timedelta | None = None) -> None:
        """Let a tag hold another snapshot, the latest when none is given, and live that long from now on.

        Raises:
            SnapshotNotFoundError: there is no such tag, or no such snapshot.
        """
        tags.replace_tag(self.table.load(), name, snapshot_id=snapshot_id, time_retained=time_retained)

    def delete_tag(self, name: str, *, ignore_if_missing: bool = True, accept_lost_snapshot: bool = False) -> None:
        """Delete a tag; its rows stay as long as a snapshot, a branch or another tag holds them.

        Args:
            name: of the tag.
            ignore_if_missing: a tag that is not there is no error, as in Java and in SQL; False makes it one.
            accept_lost_snapshot: give up a commit whose snapshot is missing although LATEST names it, instead of
                failing: its files are garbage from now on, and its id is taken again.

        Raises:
            SnapshotNotFoundError: there is no such tag, and that is not ignored; the message names those there are.
        """
        tags.delete_tag(accept_lost(self.table.load(), accept_lost_snapshot), name, ignore_if_missing=ignore_if_missing)

    def rename_tag(self, name: str, new_name: str) -> None:
        """Rename a tag.

        Raises:
            SnapshotNotFoundError: there is no such tag.
            PaimonError: there is one of the new name, or that name is not allowed.
        """
        tags.rename_tag(self.table.load(), name, new_name)

    def expire_tags(self, *, older_than: datetime | str | None = None, accept_lost_snapshot: bool = False) -> list[str]:
        """Delete the tags whose time is over; return their names.

        Args:
            older_than: delete those made before this time, a local one or with its zone, as well.
            accept_lost_snapshot: give up a commit whose snapshot is missing although LATEST names it, instead of
                failing: its files are garbage from now on, and its id is taken again.
        """
        before = tags.moment(older_than)
        local = before.astimezone().replace(tzinfo=None) if before and before.tzinfo else before
        return tags.expire_tags(accept_lost(self.table.load(), accept_lost_snapshot), older_than=local)

    def rollback_to_as_latest(self, *, snapshot_id: int | None = None, tag: str | None = None) -> int:
        """Commit the state of an earlier snapshot or tag as a new snapshot, whose id is returned.

        Other than with `rollback_to`, all snapshots and tags stay. Tags ``rollback-to-as-latest-…`` are made, which
        keep the files that are back from being deleted by other engines' expiry: they must stay as long as the rows.

        Args:
            snapshot_id: the snapshot.
            tag: the tag, which must stay as well.

        Raises:
            OptionError: not exactly one of them is given.
            SnapshotNotFoundError: there is no such snapshot or tag.
            CommitConflictError: others committed at the same time, too often.
        """
        done = rollback.rollback_to_as_latest(self.table.load(), snapshot_id=snapshot_id, tag=tag)
        return done.current_snapshot_id

    def rollback_to(
        self,
        *,
        snapshot_id: int | None = None,
        tag: str | None = None,
        time: datetime | None = None,
        watermark: int | None = None,
        accept_lost_snapshot: bool = False,
    ) -> int:
        """Make an earlier snapshot the latest one again; later snapshots and tags are forgotten. Return its id.

        Args:
            snapshot_id: this snapshot, or a tag of it where it has expired.
            tag: the snapshot that this tag holds.
            time: the latest snapshot committed at or before this time, a local one or with its zone.
            watermark: the latest snapshot whose watermark is not later.
            accept_lost_snapshot: give up a commit whose snapshot is missing although LATEST names it, instead of
                failing: its files are garbage from now on, and its id is taken again.

        Raises:
            OptionError: not exactly one of them is given.
            SnapshotNotFoundError: there is no such snapshot or tag.
            CommitError: somebody else committed meanwhile.
        """
        if sum(value is not None for value in (snapshot_id, tag, time, watermark)) != 1:
            raise OptionError("rollback_to takes exactly one of snapshot_id, tag, time and watermark")
        table = accept_lost(self.table.load(), accept_lost_snapshot)
        if snapshot_id is not None:
            done = rollback.rollback_to_snapshot(table, snapshot_id)
        elif tag is not None:
            done = rollback.rollback_to_tag(table, tag)
        elif time is not None:
            done = rollback.rollback_to_timestamp(table, epoch_millis(time))
        else:
            assert watermark is not None
            done = rollback.rollback_to_watermark(table, watermark)
        return done.current_snapshot_id
