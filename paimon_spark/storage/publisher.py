"""Whom a table asks when it publishes a snapshot or a schema: a metastore, which has locks, or nobody."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema


class Publisher(Protocol):
    """The entry of a table in a metastore. Picklable and hashable."""

    def locked(self, branch: str) -> AbstractContextManager[None]:
        """Hold the lock of a branch of the table; ``branch`` is empty for the main one.

        Raises:
            TableBusyError: others held it for too long.
        """

    def schema_changed(self, schema: TableSchema) -> None:
        """Learn that the main branch has a new schema."""

    def forget(self) -> None:
        """Remove the table's name: it is dropped, or its creation is undone."""
