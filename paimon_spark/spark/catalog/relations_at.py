"""Relations of one table in a plan, made to read one snapshot: of the table that a statement changes.

Where a relation names a version itself, it stays. The columns of a relation keep their identities, so all that names
them stays right. On the driver, once per attempt of a statement.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from paimon_spark.read.row_views import ROWS
from paimon_spark.spark.catalog.frames import PathTableProxy
from paimon_spark.spark.catalog.loading import CHANGED
from paimon_spark.spark.catalog.table import TableProxy
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.answer_proxy import java_proxy
from paimon_spark.spark.jvm.gateway import gateway_of
from paimon_spark.spark.jvm.java_sources import new_object
from paimon_spark.spark.jvm.plan_tables import OPTIONS, TABLE, python_object, with_field
from paimon_spark.spark.session.pyspark_members import java_frame, java_session
from paimon_spark.spark.session.session_options import POINTS_OF_TIME
from paimon_spark.spark.source.source_options import read_request

if TYPE_CHECKING:
    from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
    from paimon_spark.table.table import FileStoreTable

_TREE = "org.apache.spark.sql.catalyst.trees.TreeNode"


def frame_at(frame: DataFrame, table: FileStoreTable, snapshot_id: int) -> DataFrame:
    """Return the rows of a DataFrame of a classic session, made of this snapshot where they are made of the table."""
    spark = frame.sparkSession
    gateway = gateway_of(spark)
    plan = java_frame(frame).queryExecution().analyzed()
    pinned = tree_at(gateway, plan, table, snapshot_id)
    if pinned is plan:
        return frame
    return DataFrame(compat.DATASET.of(gateway).ofRows(java_session(spark), pinned), spark)


def tree_at(gateway: Gateway, tree: JavaObject, table: FileStoreTable, snapshot_id: int) -> JavaObject:
    """Return a plan or an expression whose relations of a table (by path and branch) read a snapshot of it."""
    relations = new_object(gateway, "PaimonRelations", (_TREE, tree))
    java_found = relations.found()  # no iterator: it ends by a Java exception, which is 80 calls
    found = [java_found.get(index) for index in range(java_found.size())]
    whole = [relation.withMetadataColumns() if relations.namesMetadata(relation) else relation for relation in found]
    others = [_at(gateway, relation, table, snapshot_id) for relation in whole]
    if all(other is relation for other, relation in zip(others, whole, strict=True)):
        return tree
    swaps = gateway.jvm.java.util.ArrayList()
    for other in others:
        swaps.add(other)
    return relations.replaced(swaps)


def _at(gateway: Gateway, relation: JavaObject, table: FileStoreTable, snapshot_id: int) -> JavaObject:
    proxy = python_object(gateway, relation.table())
    if not isinstance(proxy, TableProxy) or proxy.loaded.pinned:
        return relation
    own = proxy.loaded.table
    if (own.path, own.branch) != (table.path, table.branch):
        return relation
    if isinstance(proxy, PathTableProxy):
        if proxy.at is not None:
            return relation
        if proxy.view is not ROWS or any(key in POINTS_OF_TIME for key in read_request(proxy.given).options):
            return relation
        return with_field(relation, TABLE, java_proxy(proxy.at_snapshot(snapshot_id)))
    given = gateway.string_dict(relation.options().asCaseSensitiveMap())
    if any(key.lower().startswith(("scan.", "incremental-")) for key in given):
        return relation
    return relation_at(gateway, relation, snapshot_id)


def relation_at(gateway: Gateway, relation: JavaObject, snapshot_id: int) -> JavaObject:
    """Return a relation of a catalog's table that reads a snapshot as `FileStoreTable.reading_level_0` does."""
    given = gateway.string_dict(relation.options().asCaseSensitiveMap())
    proxy = python_object(gateway, relation.table())
    whole = proxy.loaded.table.reading_level_0()
    if whole is not proxy.loaded.table:
        loaded = replace(proxy.loaded, table=whole)
        relation = with_field(relation, TABLE, java_proxy(TableProxy(gateway, proxy.catalog_name, loaded)))
    return with_field(
        relation, OPTIONS, gateway.options({**given, "scan.snapshot-id": str(snapshot_id), CHANGED: "true"})
    )
