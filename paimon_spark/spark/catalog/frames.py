"""Relations of tables by their path, without any catalog: what ``format("paimon")`` and `PaimonTable.to_df` read.

A relation stays on what its load found: one snapshot, or one range of changes. Filters, columns, limits and counts are
pushed down as in a catalog, and Spark's own reader is used where it finds the rows.

Relations of one table in a plan, made to read one snapshot: of the table that a statement changes.

Where a relation names a version itself, it stays. The columns of a relation keep their identities, so all that names
them stays right. On the driver, once per attempt of a statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from paimon_spark.errors import PaimonError, UnsupportedError
from paimon_spark.read.change_range import ChangeRange
from paimon_spark.read.metadata_columns import metadata_fields
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spark.catalog.loading import CHANGED, LoadedTable
from paimon_spark.spark.catalog.named_table import merged_scans
from paimon_spark.spark.catalog.native_scan import note_refusal
from paimon_spark.spark.catalog.scan import ScanBuilderProxy
from paimon_spark.spark.catalog.scan_plan import ScanPlan
from paimon_spark.spark.catalog.stream import StreamedTableProxy
from paimon_spark.spark.catalog.system_table import SystemScanBuilderProxy, SystemTableProxy
from paimon_spark.spark.catalog.table import SaveBuilderProxy, TableProxy
from paimon_spark.spark.columns.types import is_char, padded_by_spark, to_spark_struct
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.answer_proxy import Value, java_proxy, none_of
from paimon_spark.spark.jvm.features import STREAMS, missing_of
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, gateway_of, named_text
from paimon_spark.spark.jvm.java_sources import new_object
from paimon_spark.spark.jvm.plan_tables import OPTIONS, TABLE, java_list, python_object, scala_seq, with_field
from paimon_spark.spark.jvm.spark_errors import MISFITS
from paimon_spark.spark.session.pyspark_members import java_frame, java_session, java_state
from paimon_spark.spark.session.session_options import POINTS_OF_TIME
from paimon_spark.spark.source.source_options import (
    find_field,
    match_columns,
    read_columns,
    read_request,
    row_condition,
)
from paimon_spark.spark.source.stream_source import StreamSource
from paimon_spark.spark.source.table_read import MetadataSource, metadata_source, opened_for, row_view_of
from paimon_spark.spec import data_types as t
from paimon_spark.spec.predicate import And, Leaf, Not, Or, Predicate, fields
from paimon_spark.spec.sql_text import filter_text, quoted_name
from paimon_spark.storage.store_options import without_secrets
from paimon_spark.table.table import load_table

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from paimon_spark.spark.source.source_options import ReadRequest
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable

OLD_STREAMING_PARAMETERS = 8
"""Of ``StreamingRelationV2``; newer ones also have a name that a user can give a stream."""
_CATALOG = "org.apache.spark.sql.connector.catalog"
_SAME_IN_SPARK = (
    *(t.BooleanType, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.DecimalType, t.CharType, t.VarCharType),
    *(t.BinaryType, t.VarBinaryType, t.DateType, t.TimestampType, t.LocalZonedTimestampType),
)
"""Types whose literals, written as SQL, mean the same to Spark as to us."""

_TREE = "org.apache.spark.sql.catalyst.trees.TreeNode"


class PathTableProxy(TableProxy):
    """A table by its path: one view of it, on one snapshot or range of changes."""

    names_errors = True
    interfaces: ClassVar[tuple[str, ...]] = (
        f"{_CATALOG}.Table",
        f"{_CATALOG}.SupportsRead",
        f"{_CATALOG}.SupportsWrite",
        f"{_CATALOG}.SupportsMetadataColumns",
    )

    def __init__(
        self,
        gateway: Gateway,
        scan: TableScan,
        padded: Sequence[DataField],
        options: Mapping[str, str],
        *,
        at: int | None = None,
    ) -> None:
        """Keep the table and its options.

        Args:
            gateway: the JVM.
            scan: all rows and columns of a view.
            padded: columns that Spark pads if they are CHAR.
            options: of the load.
            at: the snapshot that a statement reads, which is given by `at_snapshot`.

        Raises:
            UnsupportedError: Spark has no type for a column.
        """
        super().__init__(gateway, "paimon", LoadedTable(scan.table, scan.table.path))
        self.view = scan.view
        self.given = options
        self.at = at
        self.padded = padded
        self.struct = padded_by_spark(to_spark_struct(scan.columns), padded)
        self.first = ScanPlan(scan.table, self.struct, view=scan.view).on(scan.source)

    def at_snapshot(self, snapshot_id: int) -> PathTableProxy:
        """The same load of another snapshot, with the columns that the table has now."""
        request = read_request(self.given, snapshot_id=snapshot_id)
        table = load_table(request.name, options=request.options)
        scan = TableScan.of(table, self.view, snapshot_id=snapshot_id)
        return PathTableProxy(self.gateway, scan, self.padded, self.given, at=snapshot_id)

    def answers(self) -> dict[str, Value]:
        """What the table is; views of the rows have no metadata columns."""
        found = super().answers()
        if self.view is not ROWS:
            found["metadataColumns"] = none_of(f"{_CATALOG}.MetadataColumn")
        return found

    def _capabilities(self) -> Sequence[str]:
        """Batch reads; of the table itself also writes, for INSERT into a temporary view of a load."""
        if self.view is not ROWS:
            return ["BATCH_READ"]
        return ["BATCH_READ", "BATCH_WRITE", "TRUNCATE", *merged_scans(self.gateway)]

    def scan_builder(self, options: Mapping[str, str]) -> ScanBuilderProxy:
        """A builder for one scan. The options of the load are known already."""
        builder = ScanBuilderProxy(self.gateway, self.loaded, {}, self.view)
        builder.first, builder.names_errors = self.first, True
        return builder

    def newWriteBuilder(self, info: JavaObject) -> Any:
        """A builder for one write, by the options of the load."""
        return SaveBuilderProxy(self.gateway, info, self.given)

    def toString(self) -> str:
        """The text that `equals` compares: the rows, the columns and the options of the read."""
        schema, source = self.loaded.table.schema, self.first.source
        options = ",".join(f"{key}={value}" for key, value in sorted(schema.options.items()))
        if isinstance(source, ChangeRange):
            rows = source.describe()
        else:
            rows = "none" if source is None else f"{source.id},{source.uuid}"
        return f"{super().toString()}${self.view.name}#{rows},{schema.id}?{options}&{self.struct.json()}"


class PathSystemTableProxy(SystemTableProxy):
    """A system table by its path; its rows are read once."""

    def __init__(self, gateway: Gateway, path: str, source: MetadataSource) -> None:
        super(SystemTableProxy, self).__init__(gateway)
        self.table_name = f"paimon.{path}"
        self.struct = to_spark_struct(source.fields)

        @cache
        def rows() -> pa.Table:
            try:
                return source.rows()
            except UnsupportedError as error:
                raise UnsupportedError(named_text(error)) from error
            except PaimonError as error:
                raise PaimonError(named_text(error)) from error

        self.rows = rows

    def _capabilities(self) -> Sequence[str]:
        return ("BATCH_READ",)

    def scan_builder(self, options: Mapping[str, str]) -> SystemScanBuilderProxy:
        """A builder for one scan."""
        return SystemScanBuilderProxy(self.gateway, self.table_name, self.struct, self.rows)

    def toString(self) -> str:
        """The text that `equals` compares: two loads are never equal."""
        return f"{self.table_name}@{id(self):x}"


def read_relation(
    gateway: Gateway,
    state: JavaObject,
    options: Mapping[str, str],
    schema: StructType | None = None,
    *,
    snapshot_id: int | None = None,
    opened: FileStoreTable | None = None,
) -> JavaObject | None:
    """Return the logical plan of a load. It stays on the snapshot that the load means now.

    Args:
        gateway: the JVM of a classic session.
        state: the state of that session.
        options: of ``format("paimon")``, the path among them.
        schema: the columns that the user gave.
        snapshot_id: the snapshot that a statement reads of the table that it changes; its rows come as files hold them.
        opened: the table, if the statement has opened it already.

    Returns:
        None where the plain source must read: for filters that Spark has no equal for, and in a Spark whose classes
        are others.

    Raises:
        PaimonError: as of a load by the plain source.
    """
    with without_secrets(options):
        request = read_request(options, snapshot_id=snapshot_id)
        found = _table_of(gateway, request, options, schema, opened)
        if found is None:
            return None
        proxy, columns, metadata = found
        names = None
        if schema is not None:
            names = match_columns([*columns, *metadata], schema)
        elif request.columns is not None:
            names = [field.name for field in read_columns([*columns, *metadata], request.columns)]
        condition = None
        if request.filter is not None:
            predicate = row_condition(request.filter, columns, request.settings)
            condition = _spark_condition(predicate, columns, padded=schema is None and request.snapshot_id is None)
            if condition is None:
                return None
    given = {} if request.snapshot_id is None else {CHANGED: "true"}
    try:
        return _plan(gateway, state, proxy, given, condition, names, names if schema is None else schema.names)
    except MISFITS as error:
        note_refusal(error)
        return None


def streaming_relation(
    gateway: Gateway, state: JavaObject, options: Mapping[str, str], schema: StructType | None = None
) -> JavaObject | None:
    """Return the logical plan of ``readStream.format("paimon").load()``; arguments and errors as of `read_relation`.

    Returns:
        None where the plain source must read: in a Spark whose classes are others.
    """
    if missing_of(gateway, STREAMS):
        return None
    with without_secrets(options):
        request = read_request(options)
        source = StreamSource.of(request)
        names = None
        if schema is not None:
            names = match_columns([*source.columns, *source.metadata], schema)
        elif request.columns is not None:
            names = [field.name for field in source.fields(request.columns)]
    padded = list(source.columns) if schema is None else _char_columns(source, schema)
    struct = padded_by_spark(to_spark_struct(source.columns), padded)
    proxy = StreamedTableProxy(gateway, request.path, source, struct)
    nothing = gateway.jvm.scala.Option.empty()
    try:
        relation = compat.STREAMING_RELATION.of(gateway)
        attributes = compat.RELATION.of(gateway).create(java_proxy(proxy), nothing, nothing).output()
        count = gateway.java_class(compat.STREAMING_RELATION.name).getConstructors()[0].getParameterCount()
        more = [compat.UNNAMED_STREAM.of(gateway)] if count > OLD_STREAMING_PARAMETERS else []
        options_of_spark = gateway.options({})
        plan = relation(
            nothing, request.path, java_proxy(proxy), options_of_spark, attributes, nothing, nothing, nothing, *more
        )
        return _chosen(gateway, state, plan, names, names if schema is None else schema.names)
    except MISFITS as error:
        note_refusal(error)
        return None


def _char_columns(source: StreamSource, schema: StructType) -> list[DataField]:
    return [find_field([*source.columns, *source.metadata], f.name) for f in schema.fields if is_char(f)]


def path_frame(
    spark: SparkSession,
    options: Mapping[str, str],
    *,
    snapshot_id: int | None = None,
    opened: FileStoreTable | None = None,
) -> DataFrame | None:
    """The rows that a load with these options asks for; None and errors as of `read_relation`."""
    try:
        gateway = gateway_of(spark)
    except PaimonError as error:  # the JVM cannot call Python
        note_refusal(error)
        return None
    plan = read_relation(gateway, java_state(spark), options, snapshot_id=snapshot_id, opened=opened)
    if plan is None:
        return None
    return DataFrame(compat.DATASET.of(gateway).ofRows(java_session(spark), plan), spark)


def _table_of(
    gateway: Gateway,
    request: ReadRequest,
    options: Mapping[str, str],
    schema: StructType | None,
    opened: FileStoreTable | None,
) -> tuple[PathTableProxy | PathSystemTableProxy, Sequence[DataField], Sequence[DataField]] | None:
    """Return the proxy of a table, its columns and its metadata columns; None where Spark has no type for a column."""
    system = metadata_source(request)
    if system is not None:
        return PathSystemTableProxy(gateway, request.path, system), system.fields, ()
    table = opened_for(request, opened)
    scan = TableScan.of(table, row_view_of(request), snapshot_id=request.snapshot_id)
    own = {field.name for field in scan.columns}
    metadata = [field for field in metadata_fields(scan.table.schema) if scan.view is ROWS and field.name not in own]
    if schema is not None:  # the user says what is CHAR
        padded = [find_field([*scan.columns, *metadata], column.name) for column in schema.fields if is_char(column)]
    elif request.snapshot_id is None:
        padded = list(scan.columns)
    else:  # a statement that changes rows needs them as they are stored
        padded = []
    try:
        return PathTableProxy(gateway, scan, padded, options), scan.columns, metadata
    except UnsupportedError:
        return None


def _plan(
    gateway: Gateway,
    state: JavaObject,
    proxy: PathTableProxy | PathSystemTableProxy,
    options: Mapping[str, str],
    condition: str | None,
    names: Sequence[str] | None,
    shown: Sequence[str] | None,
) -> JavaObject:
    """Return a relation below a filter and a projection."""
    nothing = gateway.jvm.scala.Option.empty()
    relation = compat.RELATION.of(gateway).create(java_proxy(proxy), nothing, nothing)
    if options:
        relation = with_field(relation, OPTIONS, gateway.options(options))
    return _chosen(gateway, state, relation, names, shown, condition)


def _chosen(
    gateway: Gateway,
    state: JavaObject,
    relation: JavaObject,
    names: Sequence[str] | None,
    shown: Sequence[str] | None,
    condition: str | None = None,
) -> JavaObject:
    """Return a relation below a filter and a projection."""
    known: list[str] = []
    if names is not None:  # each column costs a call of the JVM
        known = [str(column.name()) for column in java_list(relation.output())]
        if not set(known).issuperset(names):
            relation = relation.withMetadataColumns()
            known = [str(column.name()) for column in java_list(relation.output())]
    plan = relation
    if condition is not None:
        plan = compat.FILTER(gateway, state.sqlParser().parseExpression(condition), plan)
    if names is None or shown is None:
        return plan
    output = dict(zip(known, java_list(relation.output()), strict=True))
    chosen = [
        output[name]
        if name == alias
        else state.sqlParser().parseExpression(f"{quoted_name(name)} AS {quoted_name(alias)}")
        for name, alias in zip(names, shown, strict=True)
    ]
    return compat.PROJECT(gateway, scala_seq(gateway, chosen), plan)


def _spark_condition(predicate: Predicate, columns: Sequence[DataField], *, padded: bool) -> str | None:
    """Return the predicate as SQL; None where Spark could evaluate its literals or CHAR columns in another way."""
    types = {field.name: field.type for field in columns if padded or not isinstance(field.type, t.CharType)}
    if not all(isinstance(types.get(name), _SAME_IN_SPARK) for name in fields(predicate)):
        return None
    if not all(_is_same_in_spark(value) for leaf in _leaves(predicate) for value in leaf.literals):
        return None
    try:
        return filter_text(predicate)
    except ValueError:  # an IN without values
        return None


def _is_same_in_spark(literal: Any) -> bool:
    if isinstance(literal, str):
        return "\\" not in literal and "'" not in literal  # how they are escaped depends on the session
    return not isinstance(literal, float | np.datetime64)


def _leaves(predicate: Predicate) -> list[Leaf]:
    match predicate:
        case Leaf():
            return [predicate]
        case Not():
            return _leaves(predicate.child)
        case And() | Or():
            return [leaf for child in predicate.children for leaf in _leaves(child)]
    return []


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
    """Return a plan or an expression whose relations of a table (by store, path and branch) read a snapshot of it."""
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
    if own.place != table.place:
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
