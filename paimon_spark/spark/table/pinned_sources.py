"""A source that reads the target itself: it reads the snapshot that the statement reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark.commit.conflict_detection import LAST_SAFE
from paimon_spark.errors import UnsupportedError
from paimon_spark.options.core_options import OPENED_AT, READS_LEVEL_0
from paimon_spark.read.postponed_read import hides_rows, refuse_self_overwrite
from paimon_spark.spark.pushdown.connect_loads import unpinned
from paimon_spark.spark.session.connect_plans import is_paimon_load, load_options, unknown_views, with_loads
from paimon_spark.spark.session.session_options import POINTS_OF_TIME
from paimon_spark.spark.session.session_settings import is_connect
from paimon_spark.spark.source.source_options import read_request
from paimon_spark.spark.statements.query_trees import named_tables
from paimon_spark.table.table import load_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.table.table import FileStoreTable


def pinned_source(
    source: DataFrame, table: FileStoreTable, snapshot_id: int | None, *, replaced: bool = False
) -> DataFrame:
    """Return a source whose loads of the target read a snapshot, where they name no version.

    On Connect a temporary view is followed where this client has made it.

    Args:
        source: the rows.
        table: the target.
        snapshot_id: None where it has none.
        replaced: whether it gets another schema before the rows are read.
    """
    if snapshot_id is None:
        return source
    if not is_connect(source.sparkSession):
        from paimon_spark.spark.catalog.frames import frame_at  # needs py4j, which a Connect client may lack

        return frame_at(source, table, snapshot_id)

    def pin(load: Any) -> bool:
        if not _is_plain_load(load, table):
            return False
        unpinned(load)
        load.options["scan.snapshot-id"] = str(snapshot_id)
        if table.options.batch_scan_skips_level_0:
            load.options[READS_LEVEL_0] = "true"
        if replaced:
            load.options[OPENED_AT] = str(table.latest.id)
        return True

    return with_loads(source, pin, named_tables)


def replacing_rows(
    rows: DataFrame, table: FileStoreTable, *, replaced: bool = False
) -> tuple[DataFrame, dict[str, str]]:
    """Return the rows of an overwrite, and options of the write that go with them; arguments as of `pinned_source`.

    Rows that are made of the table itself are made of one snapshot, with those of level 0, and the overwrite is a
    conflict if another commit has changed the partitions that it replaces since then.

    Raises:
        UnsupportedError: rows of the table are postponed, and would be dropped unread.
    """
    latest = table.snapshots.latest()
    pinned = pinned_source(rows, table, None if latest is None else latest.id, replaced=replaced)
    if latest is None:
        return pinned, {}
    unknown = unknown_views(pinned) if is_connect(rows.sparkSession) else []
    if pinned is rows and not unknown:
        return pinned, {}
    if unknown and hides_rows(table, latest):
        raise UnsupportedError(
            f"Temporary view {unknown[0]} reads a Paimon table, and was not made by this client since it registered "
            f"Paimon. If that is table {table.path}, its rows that are postponed or not compacted would be dropped "
            "unread: make the view again, name the table, or compact it (CALL sys.compact)."
        )
    if pinned is not rows:
        refuse_self_overwrite(table, latest)
    return pinned, {LAST_SAFE: str(latest.id)}


def _is_plain_load(load: Any, table: FileStoreTable) -> bool:
    """Whether it loads the rows of a table, and names no version."""
    if not is_paimon_load(load) or len(load.paths) > 1:
        return False
    request = read_request(load_options(load))
    if request.name.system_table is not None or any(key in POINTS_OF_TIME for key in request.options):
        return False
    own = load_table(request.name, options=request.options)
    return own.place == table.place
