"""A source of a MERGE that reads the target itself: it reads the snapshot that the statement reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark.spark.session.connect_plans import with_loads
from paimon_spark.spark.session.session_options import POINTS_OF_TIME
from paimon_spark.spark.session.session_settings import is_connect
from paimon_spark.spark.source.source_options import read_request
from paimon_spark.spark.source.system_read import named_system_table
from paimon_spark.table.table import load_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_spark.table.table import FileStoreTable


def pinned_source(source: DataFrame, table: FileStoreTable, snapshot_id: int | None) -> DataFrame:
    """Return a source whose loads of the target read a snapshot (None: there is none), where they name no version.

    A Connect client does not see what is behind the name of a view: there it stays.
    """
    if snapshot_id is None:
        return source
    if not is_connect(source.sparkSession):
        from paimon_spark.spark.catalog.relations_at import frame_at  # needs py4j, which a Connect client may lack

        return frame_at(source, table, snapshot_id)

    def pin(load: Any) -> bool:
        if not _is_plain_load(load, table):
            return False
        load.options["scan.snapshot-id"] = str(snapshot_id)
        return True

    return with_loads(source, pin)


def _is_plain_load(load: Any, table: FileStoreTable) -> bool:
    """Whether it loads the rows of a table, and names no version."""
    if load.format.lower() != "paimon" or len(load.paths) > 1:
        return False
    request = read_request({**load.options, **({"path": load.paths[0]} if load.paths else {})})
    if named_system_table(request.path) is not None or any(key in POINTS_OF_TIME for key in request.options):
        return False
    own = load_table(request.path, options=request.options)
    return (own.path, own.branch) == (table.path, table.branch)
