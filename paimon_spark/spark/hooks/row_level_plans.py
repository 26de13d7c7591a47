"""The rows of a DELETE or UPDATE that Spark has analysed, as a query; and the partitions that a condition names.

Everything a statement says stays Spark's own expressions: here they are only put into plans that can be run. On the
driver, once per statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from paimon_spark.errors import UnsupportedError
from paimon_spark.maintain.row_level import live_partitions_of
from paimon_spark.read.metadata_columns import FILE_PATH, ROW_INDEX
from paimon_spark.spark.catalog.frames import relation_at
from paimon_spark.spark.catalog.partition_management import catalyst_rows
from paimon_spark.spark.columns.types import CHAR_METADATA
from paimon_spark.spark.jobs.located_rows import HIT
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.plan_tables import OUTPUT, aligned_assignments, column_ids, java_list, scala_seq, with_field
from paimon_spark.spark.session.pyspark_members import java_frame
from paimon_spark.spark.sql.row_changes import MatchedRows
from paimon_spark.spec.data_types import CharType, DataField, IntType
from paimon_spark.spec.special_fields import ROW_ID, SEQUENCE_NUMBER

if TYPE_CHECKING:
    from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
    from paimon_spark.table.table import FileStoreTable

_NUMBER = "_paimon_partition"
_TRACKED = (ROW_ID.name, SEQUENCE_NUMBER.name)


@dataclass
class Target:
    """The table that a statement changes, as its expressions name it."""

    gateway: Gateway
    relation: JavaObject
    """The ``DataSourceV2Relation``."""
    with_metadata: bool = False
    """Whether the statement names metadata columns of the table: by the ids that this very relation gives them."""

    @cached_property
    def attributes(self) -> list[JavaObject]:
        """The columns, in order."""
        return java_list(self.relation.output())

    def rows(
        self, condition: JavaObject | None, values: Mapping[str, JavaObject], snapshot_id: int | None
    ) -> DataFrame:
        """The rows of a snapshot for which a condition is true.

        A CHAR column is compared as Spark compares it, padded; but it comes out as the table holds it, so that the key
        of a row is the key of what is written for it.

        Args:
            condition: None for all rows.
            values: the expressions of those columns that get another value, by name.
            snapshot_id: what is read; None where the table has no snapshot yet.
        """
        source, raw = self._padded(self.at_snapshot(snapshot_id))
        if condition is not None:
            source = compat.FILTER(self.gateway, condition, source)
        columns = [
            self._alias(values.get(attribute.name(), raw.get(attribute.name(), attribute)), attribute.name())
            for attribute in self.attributes
        ]
        return self.frame(compat.PROJECT(self.gateway, scala_seq(self.gateway, columns), source))

    def rows_of_files(
        self, condition: JavaObject | None, values: Mapping[str, JavaObject], snapshot_id: int
    ) -> DataFrame:
        """All rows of a snapshot with the columns `FILE_PATH` and `HIT`; the rows that are hit have their new values.

        Args:
            condition: None hits all rows.
            values: the expressions of those columns that get another value, by name.
            snapshot_id: what is read.
        """
        true = compat.LITERAL.of(self.gateway).TrueLiteral()
        source, raw = self._padded(self.at_snapshot(snapshot_id).withMetadataColumns())
        visible = java_list(source.output())
        path = next(column for column in visible if column.name() == FILE_PATH)
        hit = self._alias(true if condition is None else compat.EQUAL_NULL_SAFE(self.gateway, condition, true), HIT)
        source = compat.PROJECT(self.gateway, scala_seq(self.gateway, [*visible, hit]), source)
        columns = [path, hit.toAttribute(), *(column for column in visible if column.name() in _TRACKED)]
        for attribute in self.attributes:
            old, new = raw.get(attribute.name(), attribute), values.get(attribute.name())
            value = old if new is None else compat.IF(self.gateway, hit.toAttribute(), new, old)
            columns.append(self._alias(value, attribute.name()))
        return self.frame(compat.PROJECT(self.gateway, scala_seq(self.gateway, columns), source))

    def located(self, condition: JavaObject | None, values: Mapping[str, JavaObject], snapshot_id: int) -> DataFrame:
        """The rows of a snapshot for which a condition is true, with the columns `FILE_PATH` and `ROW_INDEX`.

        Arguments as of `marked`.
        """
        source, raw = self._padded(self.at_snapshot(snapshot_id).withMetadataColumns())
        visible = {column.name(): column for column in java_list(source.output())}
        if condition is not None:
            source = compat.FILTER(self.gateway, condition, source)
        columns = [visible[name] for name in (FILE_PATH, ROW_INDEX, *_TRACKED) if name in visible]
        for attribute in self.attributes:
            value = values.get(attribute.name(), raw.get(attribute.name(), attribute))
            columns.append(self._alias(value, attribute.name()))
        return self.frame(compat.PROJECT(self.gateway, scala_seq(self.gateway, columns), source))

    def side(self, snapshot_id: int | None, locations: Sequence[str]) -> tuple[DataFrame, dict[str, JavaObject]]:
        """The rows of a snapshot as one side of a join, and its columns as the files hold them.

        Args:
            snapshot_id: what is read; None where the table has no snapshot yet.
            locations: metadata columns that come with them.
        """
        relation = self.at_snapshot(snapshot_id)
        source, raw = self._padded(relation.withMetadataColumns() if locations else relation)
        old = {attribute.name(): raw.get(attribute.name(), attribute) for attribute in self.attributes}
        visible = {attribute.name(): attribute for attribute in java_list(source.output())} if locations else {}
        return self.frame(source), {**old, **{name: visible[name] for name in locations}}

    def at_snapshot(self, snapshot_id: int | None) -> JavaObject:
        """Return the relation that reads a snapshot, with the metadata columns that the statement names."""
        relation = self.relation.withMetadataColumns() if self.with_metadata else self.relation
        return relation if snapshot_id is None else relation_at(self.gateway, relation, snapshot_id)

    def partitions(self, table: FileStoreTable, condition: JavaObject) -> list[dict[str, Any]] | None:
        """The partitions for which a condition is true, evaluated by Spark.

        Returns:
            None when the condition is about other columns, or their values cannot be converted to Spark's.
        """
        keys = table.schema.partition_keys
        own = {attribute.name(): attribute for attribute in self.attributes if attribute.name() in keys}
        if column_ids(self.gateway, condition.references()) - {str(key.exprId()) for key in own.values()}:
            return None
        found = live_partitions_of(table)
        fields = table.schema.partition_fields
        padded = {f.name: f.type.length for f in fields if isinstance(f.type, CharType)}
        numbered = [
            {**{k: _padded_to(v, padded.get(k)) for k, v in values.items()}, _NUMBER: number}
            for number, values in enumerate(found)
        ]
        try:
            rows = catalyst_rows(self.gateway, [*fields, DataField(-1, _NUMBER, IntType(nullable=False))], numbered)
        except UnsupportedError:
            return None
        number_type = self.gateway.data_type('"integer"')
        number = self._new_attribute(_NUMBER, number_type, nullable=False)
        none = self.gateway.jvm.scala.Option.empty()
        relation = compat.LOCAL_RELATION(
            self.gateway,
            scala_seq(self.gateway, [*(own[key] for key in keys), number]),
            rows,
            False,
            none,
        )
        chosen = self.frame(
            compat.PROJECT(
                self.gateway, scala_seq(self.gateway, [number]), compat.FILTER(self.gateway, condition, relation)
            )
        ).collect()
        return [found[row[0]] for row in chosen]

    def columns_of(self, expressions: Sequence[JavaObject]) -> list[str]:
        """The columns of the table that expressions name."""
        named = set[str]().union(*(column_ids(self.gateway, each.references()) for each in expressions))
        return [attribute.name() for attribute in self.attributes if str(attribute.exprId()) in named]

    def assigned(self, assignments: JavaObject) -> dict[str, JavaObject]:
        """The expressions of the columns that an UPDATE assigns, cast and checked as Spark stores values."""
        aligned = aligned_assignments(self.gateway, self.relation.output(), assignments)
        pairs = zip(self.attributes, aligned, strict=True)
        return {
            attribute.name(): assignment.value()
            for attribute, assignment in pairs
            if not assignment.value().semanticEquals(attribute)
        }

    def _padded(self, relation: JavaObject) -> tuple[JavaObject, dict[str, JavaObject]]:
        """The table with its CHAR columns padded, and those columns as the table holds them, by name."""
        pads = compat.SQL_CONF.of(self.gateway).get().readSideCharPadding()
        if not pads or CHAR_METADATA not in relation.schema().json():
            return relation, {}
        utils = compat.CHAR_COLUMNS.of(self.gateway)
        raw: dict[str, JavaObject] = {}
        output, columns = [], []
        for attribute in java_list(relation.output()):
            declared = utils.getRawType(attribute.metadata())
            if declared.isEmpty() or "char(" not in _chars(declared.get()):
                output.append(attribute)
                columns.append(attribute)
                continue
            own = attribute.withExprId(compat.NAMED_EXPRESSION.of(self.gateway).newExprId())
            raw[attribute.name()] = plain = own.withMetadata(self._no_metadata())
            output.append(plain)
            columns.append(
                self._alias(utils.addPaddingForScan(own), attribute.name(), attribute.exprId(), attribute.metadata())
            )
        if not raw:
            return relation, {}
        relation = with_field(relation, OUTPUT, scala_seq(self.gateway, output))
        visible = [*columns, *raw.values()]
        return compat.PROJECT(self.gateway, scala_seq(self.gateway, visible), relation), raw

    def _alias(
        self, value: JavaObject, name: str, expression_id: JavaObject = None, metadata: JavaObject = None
    ) -> JavaObject:
        identity = expression_id or compat.NAMED_EXPRESSION.of(self.gateway).newExprId()
        option = self.gateway.jvm.scala.Option.apply(metadata)
        nothing = scala_seq(self.gateway, [])
        return compat.ALIAS(self.gateway, value, name, identity, nothing, option, nothing)

    def _new_attribute(self, name: str, data_type: JavaObject, *, nullable: bool) -> JavaObject:
        identity = compat.NAMED_EXPRESSION.of(self.gateway).newExprId()
        nothing = scala_seq(self.gateway, [])
        return compat.ATTRIBUTE(self.gateway, name, data_type, nullable, self._no_metadata(), identity, nothing)

    def _no_metadata(self) -> JavaObject:
        return self.gateway.jvm.org.apache.spark.sql.types.Metadata.empty()

    def frame(self, plan: JavaObject) -> DataFrame:
        """The rows of a plan, in the session of the statement."""
        session = compat.CLASSIC_SESSION.of(self.gateway).active()
        return DataFrame(
            compat.DATASET.of(self.gateway).ofRows(session, plan), SparkSession(self.gateway.context, session)
        )


@dataclass(frozen=True)
class AnalyzedRows(MatchedRows):
    """The rows of a statement that Spark has analysed."""

    target: Target
    condition: JavaObject | None
    values: Mapping[str, JavaObject]
    """The expressions of those columns that get another value, by name."""
    _paths: dict[int, DataFrame] = field(default_factory=dict, compare=False)

    @property
    def matches_all(self) -> bool:
        """Whether the statement has no condition, or one that is always true."""
        return self.condition is None or str(self.condition.sql()) == "true"

    def partitions(self, table: FileStoreTable) -> list[dict[str, Any]] | None:
        """The partitions for which the condition is true."""
        return self.target.partitions(table, self.condition)

    def rows(self, snapshot_id: int | None) -> DataFrame:
        """The matched rows, with their new values."""
        return self.target.rows(self.condition, self.values, snapshot_id)

    def paths(self, snapshot_id: int) -> DataFrame:
        """The files of the matched rows."""
        if snapshot_id not in self._paths:
            self._paths[snapshot_id] = self.target.located(self.condition, {}, snapshot_id).select(FILE_PATH)
        return self._paths[snapshot_id]

    def rows_of_files(self, snapshot_id: int, files: Sequence[str]) -> DataFrame:
        """Return all rows of some files; rows with `HIT` have their new values."""
        found = self.target.rows_of_files(self.condition, self.values, snapshot_id)
        rows = java_frame(found)
        is_one = rows.col(FILE_PATH).isInCollection(self.target.gateway.string_list(files))
        return DataFrame(rows.filter(is_one), found.sparkSession)

    def columns_read(self) -> list[str]:
        """The columns that the condition and the new values name."""
        expressions = [*([] if self.condition is None else [self.condition]), *self.values.values()]
        return self.target.columns_of(expressions)

    def located(self, snapshot_id: int) -> DataFrame:
        """The matched rows with their locations; they have their new values."""
        return self.target.located(self.condition, self.values, snapshot_id)


def _chars(data_type: JavaObject) -> str:
    """Return the type as text without VARCHAR, to be searched for CHAR."""
    return str(data_type.catalogString()).lower().replace("varchar(", "")


def _padded_to(value: Any, length: int | None) -> Any:
    return value if length is None or value is None else value.ljust(length)
