"""Answers Spark's ``SupportsAtomicPartitionManagement`` and ``TruncatableTable`` for a table.

SHOW PARTITIONS, DROP PARTITION, TRUNCATE TABLE [PARTITION], SHOW TABLE EXTENDED … PARTITION; on the driver, once per
statement. A partition of a Paimon table is there when it has files.
"""

from __future__ import annotations

import datetime
import decimal
import pickle
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import types as spark

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.catalog.column_definitions import java_struct
from paimon_spark.spark.catalog.loading import LoadedTable
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.session.session_options import refuse_older_state
from paimon_spark.spark.sql.read_version import refuse_branch_of_session
from paimon_spark.spark.sql.table_definitions import (
    add_partitions,
    empty_partitions,
    missing_clauses,
    partition_counts,
)
from paimon_spark.spec import data_types as t
from paimon_spark.table.table import FileStoreTable
from paimon_spark.table.two_branches import live_partitions, matching_partitions

PARTITION_INTERFACES = (
    "org.apache.spark.sql.connector.catalog.SupportsAtomicPartitionManagement",
    "org.apache.spark.sql.connector.catalog.TruncatableTable",
)

_EPOCH = datetime.date(1970, 1, 1)
_EPOCH_TIME = datetime.datetime(1970, 1, 1)
_GETTERS: dict[type[t.DataType], str] = {
    t.BooleanType: "getBoolean",
    t.TinyIntType: "getByte",
    t.SmallIntType: "getShort",
    t.IntType: "getInt",
    t.BigIntType: "getLong",
    t.FloatType: "getFloat",
    t.DoubleType: "getDouble",
}
_CLOCKS = (t.DateType, t.TimestampType, t.LocalZonedTimestampType)
_TEXTS = (t.CharType, t.VarCharType)
_INTERNAL_ROW = "org.apache.spark.sql.catalyst.InternalRow"
_JAVA_PICKLE_PROTOCOL = 3


class OneByOneProxy(AnswerProxy):
    """Spark's questions about one partition, answered as those about many; PURGE changes nothing."""

    @abstractmethod
    def createPartitions(self, idents: Any, properties: Any) -> None:
        """ADD PARTITION."""

    @abstractmethod
    def dropPartitions(self, idents: Any) -> bool:
        """ALTER TABLE … DROP PARTITION."""

    @abstractmethod
    def truncatePartitions(self, idents: Any) -> bool:
        """TRUNCATE TABLE … PARTITION."""

    def createPartition(self, ident: JavaObject, properties: Any) -> None:
        """One partition of `createPartitions`."""
        self.createPartitions([ident], [properties])

    def dropPartition(self, ident: JavaObject) -> bool:
        """One partition of `dropPartitions`."""
        return bool(self.dropPartitions([ident]))

    def purgePartition(self, ident: JavaObject) -> bool:
        """DROP PARTITION … PURGE: as without PURGE."""
        return bool(self.dropPartitions([ident]))

    def purgePartitions(self, idents: Any) -> bool:
        """DROP PARTITION … PURGE: as without PURGE."""
        return bool(self.dropPartitions(idents))

    def truncatePartition(self, ident: JavaObject) -> bool:
        """One partition of `truncatePartitions`."""
        return bool(self.truncatePartitions([ident]))


class PartitionsProxy(OneByOneProxy):
    """The part of a table about its partitions."""

    loaded: LoadedTable

    def partitionSchema(self) -> JavaObject:
        """The partition columns; none on a table without partitions, which Spark then says."""
        return java_struct(self.gateway, to_spark_struct(self.loaded.table.schema.partition_fields))

    def listPartitionIdentifiers(self, names: Any, ident: JavaObject) -> JavaObject:
        """SHOW PARTITIONS: those whose columns `names` have the values of `ident`."""
        fields = [self.loaded.table.schema.field(name) for name in names]
        wanted = {field.name: _value(ident, index, field.type) for index, field in enumerate(fields)}
        table = self.loaded.table
        rows = matching_partitions(table, wanted, live_partitions(table))
        return catalyst_array(self.gateway, table.schema.partition_fields, rows)

    def partitionExists(self, ident: JavaObject) -> bool:
        """Whether a partition has files."""
        return not missing_clauses(self.loaded.table, [self._values(ident)])

    def loadPartitionMetadata(self, ident: JavaObject) -> JavaObject:
        """SHOW TABLE EXTENDED … PARTITION: how many rows and files there are."""
        counts = partition_counts(self.loaded.table, self._values(ident)) or {}
        return self.gateway.string_map({key: str(count) for key, count in counts.items()})

    def createPartitions(self, idents: Any, properties: Any) -> None:
        """ADD PARTITION: nothing but a line in the log, as a partition comes with its rows."""
        add_partitions(self.loaded.table, [self._values(ident) for ident in idents], located=any(map(dict, properties)))

    def dropPartitions(self, idents: Any) -> bool:
        """ALTER TABLE … DROP PARTITION: one commit for all of them."""
        return self._remove([self._values(ident) for ident in idents])

    def truncatePartitions(self, idents: Any) -> bool:
        """TRUNCATE TABLE … PARTITION: of one that is not there it does nothing, as with the official connector."""
        return self._remove([self._values(ident) for ident in idents])

    def truncateTable(self, *_options: Any) -> bool:
        """TRUNCATE TABLE."""
        from paimon_spark.maintain.row_level import truncate  # most sessions do without it

        truncate(self._writable())
        return True

    def renamePartition(self, _old: JavaObject, _new: JavaObject) -> bool:
        """RENAME PARTITION: refused, the rows hold the values."""
        raise UnsupportedError("partitions of a Paimon table cannot be renamed: INSERT the rows with the new values")

    def replacePartitionMetadata(self, _ident: JavaObject, _properties: Any) -> None:
        """Properties of partitions: there are none."""
        raise UnsupportedError("partitions of a Paimon table have no properties")

    def _remove(self, partitions: Sequence[Mapping[str, Any]]) -> bool:
        missing = missing_clauses(self.loaded.table, partitions)
        empty_partitions(self._writable(), partitions)
        return not missing

    def _writable(self) -> FileStoreTable:
        refuse_older_state(self.loaded.options)
        refuse_branch_of_session(self.loaded.options, self.loaded.name)
        return self.loaded.table

    def _values(self, ident: JavaObject) -> dict[str, Any]:
        # fewer values than partition columns stand for all partitions that begin with them (see `parser`)
        fields = self.loaded.table.schema.partition_fields[: ident.numFields()]
        return partition_values(ident, fields)


def catalyst_rows(gateway: Gateway, fields: Sequence[t.DataField], rows: Iterable[Mapping[str, Any]]) -> JavaObject:
    """Return a Scala ``Seq`` of the values of partitions. The JVM is asked as often for many as for one.

    Raises:
        UnsupportedError: a partition column is of a type whose values cannot be converted to Spark's.
    """
    struct = _row_type(fields)
    return _array_data(gateway, struct, fields, rows).toSeq(gateway.data_type(struct.json())).toList()


def catalyst_array(gateway: Gateway, fields: Sequence[t.DataField], rows: Iterable[Mapping[str, Any]]) -> JavaObject:
    """Return the same as an ``InternalRow[]``; errors as of `catalyst_rows`."""
    found = _array_data(gateway, _row_type(fields), fields, rows)
    array_class = gateway.java_class(f"[L{_INTERNAL_ROW};")
    return gateway.jvm.java.util.Arrays.copyOf(found.array(), found.numElements(), array_class)


def _row_type(fields: Sequence[t.DataField]) -> spark.StructType:
    listed = (*_GETTERS, *_CLOCKS, *_TEXTS, t.DecimalType)
    unknown = next((field.type for field in fields if not isinstance(field.type, listed)), None)
    if unknown is not None:
        raise UnsupportedError(f"partition columns of type {unknown.sql()} cannot be listed")
    return spark.StructType(
        [
            spark.StructField(field.name, spark.StringType() if isinstance(field.type, _TEXTS) else shown.dataType)
            for field, shown in zip(fields, to_spark_struct(fields), strict=True)
        ]
    )


def _array_data(
    gateway: Gateway, struct: spark.StructType, fields: Sequence[t.DataField], rows: Iterable[Mapping[str, Any]]
) -> JavaObject:
    values = [tuple(_catalyst(row[field.name]) for field in fields) for row in rows]
    array_type = gateway.data_type(spark.ArrayType(struct, containsNull=False).json())
    given = compat.UNPICKLER(gateway).loads(pickle.dumps(values, _JAVA_PICKLE_PROTOCOL))
    return compat.EVALUATE_PYTHON.of(gateway).makeFromJava(array_type).apply(given)


def _catalyst(value: Any) -> Any:
    """Return a Python value as the number that Catalyst stores."""
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - _EPOCH_TIME) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return (value - _EPOCH).days
    return value


def partition_values(row: JavaObject, fields: Sequence[t.DataField]) -> dict[str, Any]:
    """The values of a row of Catalyst, whose columns are these fields."""
    return {field.name: _value(row, index, field.type) for index, field in enumerate(fields)}


def _value(row: JavaObject, index: int, data_type: t.DataType) -> Any:
    """The Python value of a Catalyst row's field, as Arrow gives it for that type."""
    if row.isNullAt(index):
        return None
    match data_type:
        case t.CharType() | t.VarCharType():
            return row.getUTF8String(index).toString()
        case t.DecimalType():
            found = row.getDecimal(index, data_type.precision, data_type.scale)
            return decimal.Decimal(found.toString())
        case t.DateType():
            return _EPOCH + datetime.timedelta(days=row.getInt(index))
        case t.TimestampType():
            return _EPOCH_TIME + datetime.timedelta(microseconds=row.getLong(index))
        case t.LocalZonedTimestampType():
            at = _EPOCH_TIME + datetime.timedelta(microseconds=row.getLong(index))
            return at.replace(tzinfo=datetime.UTC)
    getter = _GETTERS.get(type(data_type))
    if getter is None:
        raise UnsupportedError(f"partition columns of type {data_type.sql()} cannot be named in a PARTITION clause")
    return getattr(row, getter)(index)
