"""Whom a table asks: a metastore, which has locks, a server, which keeps snapshots and schemas, or nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.snapshot import Snapshot


class Publisher(Protocol):
    """The entry of a table in a metastore. Picklable and hashable."""

    @property
    def server(self) -> TableServer | None:
        """Who decides in place of the files; None where the files do."""

    @property
    def address(self) -> str | None:
        """The path by which the catalog's options lead to the table; None where that is the one of its files."""

    def locked(self, branch: str) -> AbstractContextManager[None]:
        """Hold the lock of a branch of the table; ``branch`` is empty for the main one.

        Raises:
            TableBusyError: others held it for too long.
        """

    def schema_changed(self, schema: TableSchema, before: TableSchema) -> None:
        """Learn that the main branch is about to get a new schema, and which one it has.

        Raises:
            PaimonError: the metastore refuses it, or cannot be reached: then it is not made.
        """

    def adopts(self, schema: TableSchema) -> bool:
        """Whether a table of this schema is one whose files outlive it, and may have been there before it."""

    def knows_partitions(self, schema: TableSchema) -> bool:
        """Whether the metastore is informed of partitions."""

    def add_partitions(self, partitions: Sequence[Mapping[str, str]], directory: str) -> None:
        """Add partitions, given as texts by column, that are not known yet; their data is below a directory."""

    def drop_partitions(self, partitions: Sequence[Mapping[str, str]]) -> None:
        """Remove partitions, as far as they are known."""

    def measure_partitions(self, statistics: Sequence[Mapping[str, Any]]) -> None:
        """Learn the sums of partitions, given as Java's ``PartitionStatistics``."""

    @property
    def mark_actions(self) -> frozenset[str]:
        """Values of `partition.mark-done-action` that the metastore can carry out."""

    def mark_partitions_done(self, branch: str, partitions: Sequence[Mapping[str, str]]) -> None:
        """Tell whoever listens to the metastore that partitions are done, given as texts by column.

        Raises:
            PaimonError: the metastore refuses it, or cannot be reached.
        """

    def forget(self) -> None:
        """Remove the table's name: it is dropped, or its creation is undone."""


class TableServer(Protocol):
    """A server that keeps the schemas of a table, and its latest snapshot where that is not external.

    A branch is empty for the main one. Each method is one request.

    Raises:
        TableNotFoundError: the server does not have the table, or the branch.
        CatalogServerError: it gives no answer, or refuses.
    """

    @property
    def address(self) -> str:
        """The path by which the catalog's options lead to the table; its files lie elsewhere."""

    @property
    def is_governed(self) -> bool:
        """Whether it may hide rows and values of the table (`query-auth.enabled`)."""

    def check_free_of_limits(self) -> None:
        """Refuse a table of which it hides rows or values.

        Raises:
            UnsupportedError: it does.
        """

    @property
    def keeps_snapshots(self) -> bool:
        """Whether commits go to the server; an external table is committed to by files."""

    def schema(self, branch: str) -> TableSchema:
        """Return the latest schema."""

    def alter(self, branch: str, changes: Sequence[Mapping[str, Any]]) -> None:
        """Make the next schema of changes, as Java's ``SchemaChange`` writes them."""

    def replace(self, schema: TableSchema) -> None:
        """Give the table another schema in one step; its rows are gone."""

    def latest(self, branch: str) -> Snapshot | None:
        """Return the latest snapshot; None where nothing was committed."""

    def snapshot(self, branch: str, snapshot_id: int) -> Snapshot | None:
        """Return a snapshot; None where the server does not have it."""

    def commit(
        self, branch: str, snapshot: Snapshot, base_uuid: str | None, statistics: Sequence[Mapping[str, Any]]
    ) -> bool:
        """Publish a snapshot; False where another one has its id, or it is not made on the latest one."""

    def roll_back(self, branch: str, *, snapshot_id: int | None, tag: str | None, previous_id: int) -> None:
        """Make an earlier snapshot, or that of a tag, the latest one, unless somebody else has committed meanwhile."""

    def create_branch(self, name: str, tag: str | None) -> None:
        """Make a branch, of a tag or without rows."""

    def delete_branch(self, name: str) -> None:
        """Delete a branch."""

    def rename_branch(self, name: str, new_name: str) -> bool:
        """Give a branch another name; False where the server has no such request."""

    def fast_forward(self, name: str) -> None:
        """Let the main branch be what a branch is."""

    def registered_partitions(self) -> list[dict[str, str]]:
        """Return the partitions that the server knows, as texts by column; one request for each page."""

    def register_partitions(
        self,
        partitions: Sequence[Mapping[str, str]],
        statistics: Sequence[Mapping[str, Any]],
        *,
        replaces: bool = False,
        only_new: bool = False,
    ) -> None:
        """Let the server know partitions; one request for each thousand.

        Args:
            partitions: texts by column.
            statistics: of some of them, as Java's ``PartitionStatistics``.
            replaces: whether those are all that the partitions have; else they are added.
            only_new: refuse all of them where the server knows one.

        Raises:
            SchemaError: the server knows one, and ``only_new`` is given.
        """

    def unregister_partitions(self, partitions: Sequence[Mapping[str, str]]) -> None:
        """Let the server forget partitions, as far as it knows them; one request for each thousand."""
