"""ALTER TABLE … DROP PARTITION by the first partition columns only, which Spark refuses for tables of catalogs.

Spark lets a statement name all partition columns or none. In Paimon the first ones are enough, as in the official
connector. Such a statement leaves the parser (see `parser`) with its partitions resolved, which Spark then takes as
they are: the table is asked to drop rows with fewer values than it has partition columns.
"""

from __future__ import annotations

from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.function_proxy import FunctionProxy
from paimon_spark.spark.jvm.gateway import Gateway, HeldWeakly, JavaObject
from paimon_spark.spark.jvm.plan_tables import catalog_table, java_list, scala_seq
from paimon_spark.spark.jvm.spark_errors import CALL_ERRORS, thrown


class DropPartitionsProxy(FunctionProxy):
    """Resolves the partitions of one statement; answers ``java.util.function.Function``, on the driver."""

    state = HeldWeakly()

    caller_unwraps = True

    def __init__(self, gateway: Gateway, state: JavaObject) -> None:
        super().__init__(gateway)
        self.state = state

    def apply(self, statement: JavaObject) -> JavaObject:
        """The statement with the partitions that a prefix names.

        Anything else stays as it is, so that Spark says what is wrong with it.

        Raises:
            JavaThrownError: a partition that is named by all columns is not there, and the statement has no IF EXISTS.
        """
        try:
            table = catalog_table(self.gateway, self.state, statement.table())
            parts = None if table is None else self._named(statement, table)
        except CALL_ERRORS:  # an unknown table or column, say
            return statement
        return statement if parts is None else self._existing(statement, table, *parts)

    def _named(self, statement: JavaObject, table: JavaObject) -> tuple[list[JavaObject], list[list[str]]] | None:
        """The partitions, resolved, and the columns that they name; None where Spark resolves them as well."""
        schema = table.partitionSchema()
        columns = list(schema.names())
        resolve = getattr(compat.PARTITION_SPECS.of(self.gateway), compat.PARTITION_SPECS.methods[0])
        specs = java_list(statement.parts())
        resolved = [resolve(table.name(), spec, schema, True) for spec in specs]
        names = [java_list(spec.names()) for spec in resolved]
        if any(own != columns[: len(own)] for own in names) or all(len(own) == len(columns) for own in names):
            return None
        return resolved, names

    def _existing(
        self, statement: JavaObject, table: JavaObject, resolved: list[JavaObject], names: list[list[str]]
    ) -> JavaObject:
        there = [
            len(table.listPartitionIdentifiers(self.gateway.strings(own), spec.ident())) > 0
            for own, spec in zip(names, resolved, strict=True)
        ]
        whole = [len(own) == len(table.partitionSchema().names()) for own in names]
        given = zip(java_list(statement.parts()), there, whole, strict=True)
        missing = [spec.spec() for spec, found, full in given if full and not found]
        if missing and not statement.ifExists():
            _, database, name = table.name().split(".", 2)
            missing_error = compat.NO_SUCH_PARTITIONS(self.gateway, database, name, scala_seq(self.gateway, missing))
            raise thrown(missing_error)
        kept = [spec for spec, found in zip(resolved, there, strict=True) if found]
        return statement.copy(statement.table(), scala_seq(self.gateway, kept), statement.ifExists(), statement.purge())
