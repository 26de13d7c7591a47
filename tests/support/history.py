"""What a table's history shows: rows at a point, and files."""

from __future__ import annotations

from pathlib import Path

from paimon_spark.maintain.files import lease
from paimon_spark.read.split_read import read_split
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.plans import plan_of


def rows(table: FileStoreTable, *, snapshot_id: int | None = None, tag: str | None = None) -> dict[int, str]:
    """Return k -> v of the table's branch at its latest snapshot, at another one or at a tag."""
    at = {"scan.snapshot-id": None if snapshot_id is None else str(snapshot_id), "scan.tag-name": tag}
    options = {key: value for key, value in at.items() if value is not None}
    plan = plan_of(load_table(table.path, branch=table.branch, options=options))
    return {
        row["k"]: row["v"]
        for split in plan.splits
        for batch in read_split(plan.table, split, plan.fields, plan.residual)
        for row in batch.to_pylist()
    }


def table_files(table: FileStoreTable, folder: str = "") -> set[str]:
    """Return the paths of all files in the table's directory, or in a folder of it, relative to it.

    The lease of a process that ended is none of them: it stays until somebody else takes the lease.
    """
    root = Path(table.path)
    files = (path for path in (root / folder).rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix() for path in files if not path.name.startswith(lease.PREFIX)}
