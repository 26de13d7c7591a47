"""Whether one snapshot is built on another one: it has the files of that one, but for its own changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import PaimonError

if TYPE_CHECKING:
    from paimon_spark.spec.snapshot import Snapshot
    from paimon_spark.table.table import FileStoreTable


def changes_only(table: FileStoreTable, snapshot: Snapshot, before: Snapshot, *, unread: bool) -> bool:
    """Tell whether a snapshot differs from the one before it by its own changes only.

    Args:
        table: the branch of both.
        snapshot: the later one.
        before: with the id before its id.
        unread: the answer where that cannot be read.
    """
    try:
        files = {entry.identifier() for entry in table.manifests.live_entries(snapshot)}
        files_before = {entry.identifier() for entry in table.manifests.live_entries(before)}
        manifests = table.manifests.delta_manifests(snapshot)
        changes = {entry.identifier() for meta in manifests for entry in table.manifests.read_manifest(meta)}
    except (OSError, PaimonError):
        return unread
    return files ^ files_before <= changes
