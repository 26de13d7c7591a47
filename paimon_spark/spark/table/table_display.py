"""How a `PaimonTable` shows itself: a line in a terminal, a short page in a notebook, its LSM trees as a picture."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from paimon_spark.display.overview import LsmPicture, Overview, buckets_of, html_table, kind_of, lsm_shape, overview
from paimon_spark.display.texts import counted, time_text
from paimon_spark.errors import PaimonError
from paimon_spark.spark.table.handle import TablePart
from paimon_spark.spec.snapshot import Operation, Snapshot
from paimon_spark.table.paths import MAIN_BRANCH

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

_MOST_SHOWN = 40
"""Options, columns and tags that are shown; the others are counted."""


class Display(TablePart):
    """Methods by which a table shows itself. They run on the driver, without a Spark job or a JVM."""

    def __repr__(self) -> str:
        """What the table is: kind, keys, path, newest snapshot."""
        try:
            return f"PaimonTable({self.table.path!r}: {', '.join(_facts(self.table.with_options({})))})"
        except (PaimonError, OSError) as error:
            return f"PaimonTable({self.table.path!r}: {type(error).__name__})"

    def _repr_html_(self) -> str:
        try:
            return _page(overview(self.table.with_options({})))
        except (PaimonError, OSError) as error:
            return f"<div><strong>{escape(self.table.path)}</strong><p>{escape(str(error))}</p></div>"

    def lsm(self, /, **options: Any) -> LsmPicture:
        """A picture of the LSM trees: files and bytes of every level of every bucket.

        Of a table with many buckets a column is a partition, or several neighbours.

        Args:
            options: which snapshot, such as ``scan_tag_name="t"``; the latest one when not given.

        Raises:
            SnapshotNotFoundError: there is no such snapshot or tag.
        """
        return LsmPicture(lsm_shape(self.table.with_options(options)))


def _facts(table: FileStoreTable) -> list[str]:
    schema = table.schema
    latest = table.snapshots.latest()
    branch = "" if table.branch == MAIN_BRANCH else f"branch {table.branch}"
    keys = f"primary key {', '.join(schema.primary_keys)}" if schema.primary_keys else ""
    partitions = f"partitioned by {', '.join(schema.partition_keys)}" if schema.partition_keys else ""
    state = "no snapshot yet" if latest is None else f"snapshot {latest.id} of {time_text(latest.time_millis)}"
    columns = counted(len(schema.fields), "column")
    return [fact for fact in (kind_of(schema), branch, columns, keys, partitions, state) if fact]


def _page(seen: Overview) -> str:
    schema = seen.schema
    facts = [
        ("Primary key", ", ".join(schema.primary_keys)),
        ("Partitioned by", ", ".join(schema.partition_keys)),
        ("Buckets", buckets_of(schema)),
        ("Branch", "" if seen.branch == MAIN_BRANCH else seen.branch),
        ("Comment", schema.comment or ""),
        ("Size", seen.size_text),
        ("Tags", _some(seen.tags)),
        ("Branches", _some(seen.branches)),
    ]
    parts = [
        f"<strong>{escape(seen.path)}</strong><br/>{escape(kind_of(schema).capitalize())}, "
        f"{counted(len(schema.fields), 'column')}",
        html_table([(name, [text]) for name, text in facts if text]),
        _folded(
            "Columns",
            [(field.name, [field.type.sql(), field.description or ""]) for field in schema.fields],
        ),
        _folded("Options", [(key, [value]) for key, value in seen.options]),
        _snapshots(seen),
    ]
    return f'<div class="paimon-table" style="line-height:1.35">{"".join(parts)}</div>'


def _folded(title: str, rows: list[tuple[str, list[str]]]) -> str:
    if not rows:
        return ""
    more = f"<div>… {len(rows) - _MOST_SHOWN:,} more</div>" if len(rows) > _MOST_SHOWN else ""
    is_open = ' open="open"' if title == "Options" else ""
    return (
        f"<details{is_open}><summary>{title} ({len(rows):,})</summary>{html_table(rows[:_MOST_SHOWN])}{more}</details>"
    )


def _snapshots(seen: Overview) -> str:
    if not seen.newest:
        return "<div>No snapshot yet</div>"
    rows = [
        (
            str(snapshot.id),
            [
                time_text(snapshot.time_millis),
                _operation(snapshot),
                f"{snapshot.delta_record_count or 0:+,}",
                f"{snapshot.total_record_count or 0:,}",
            ],
        )
        for snapshot in seen.newest
    ]
    title = f"<div>Newest of {counted(seen.snapshot_count, 'snapshot')}</div>"
    total = "total before merging" if seen.schema.kind.is_keyed else "total"
    return title + html_table(rows, ("snapshot", "time", "kind", "records", total))


def _operation(snapshot: Snapshot) -> str:
    """The statement that made a snapshot, as far as it says so, else the kind of its commit."""
    operation = snapshot.operation.value if isinstance(snapshot.operation, Operation) else snapshot.operation
    return snapshot.commit_kind.value if operation in (None, Operation.WRITE.value) else str(operation)


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_MOST_SHOWN])
    return shown if len(names) <= _MOST_SHOWN else f"{shown}, … {len(names) - _MOST_SHOWN:,} more"
