"""Writes and MERGE by the catalog whose columns are not those of the table: some are added to it, or are filled in.

Option `write.merge-schema` adds columns that the table lacks. Spark refuses rows with more columns than their table
before it asks the table. So a rule, a Java class, gives Python a write by name (``INSERT INTO … BY NAME``, ``writeTo``,
``saveAsTable``) before Spark compares columns, where the write or the session sets the option. Python gives it a table
that has those columns already. They are added to the real one when the write is planned, so EXPLAIN changes nothing.
Fields that STRUCTs of the rows lack become null. Writes by position never add columns, as in the official connector.

So it is for MERGE WITH SCHEMA EVOLUTION, and for the option with MERGE. Spark resolves ``UPDATE SET *`` and ``INSERT
*`` by the columns of the target, and refuses assignments to columns that it lacks. So a rule, a Java class, gives
Python a MERGE before names are resolved. Python gives it a target that has the columns already, and tells the stars by
the columns of the source. They are added to the table when the statement runs. Equals Java's
``MergeSchemaEvolutionHelper``.

Columns that a write leaves out are filled in on Spark 4.0, which does not do it in V2 tables; later versions do. The
analysed statement is completed: the columns are added to its query, with their defaults, and to its column list where
it has one. Two lists of the analyser's rules get a rule more, a Java class; Python is asked about writes by name only.
An INSERT is looked at when its query and its table are known, before Spark makes a write of it; what DataFrame writers
make is a write already, so it is looked at before Spark resolves it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql.types import StructType

from paimon_spark.errors import TableNotFoundError
from paimon_spark.spark.catalog.loading import LoadedTable, all_settings, load_catalog_table, session_options
from paimon_spark.spark.catalog.table import TableProxy
from paimon_spark.spark.columns.types import from_spark_struct
from paimon_spark.spark.hooks.java_rules import add_rule
from paimon_spark.spark.jvm import compat, features
from paimon_spark.spark.jvm.answer_proxy import java_proxy
from paimon_spark.spark.jvm.gateway import FUNCTION, Gateway, JavaObject, SessionProxy
from paimon_spark.spark.jvm.java_sources import new_object
from paimon_spark.spark.jvm.plan_tables import (
    analyzed,
    catalog_ident,
    catalog_table,
    is_proxy,
    java_list,
    java_map,
    python_object,
    python_struct,
    scala_seq,
)
from paimon_spark.spark.jvm.spark_errors import CALL_ERRORS, JavaCallError
from paimon_spark.spark.session.session_options import MERGE_KEYS, MERGE_SCHEMA, SAME_AS, as_paimon_options, merge_rules
from paimon_spark.spark.source.table_read import named_system_table
from paimon_spark.spark.source.write_target import typed_columns, with_columns
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.schema_merge import MergeRules
from paimon_spark.spec.sql_text import quoted_name

_ALIAS = next(key for key, same in SAME_AS.items() if same == MERGE_SCHEMA)
KEYS = (*MERGE_KEYS, _ALIAS)
_OPTIONS = 4  # field of DataSourceV2Relation
_PRIVILEGES = "__required_write_privileges__"  # Spark's own, of a relation that it has not resolved
_RULES = (compat.HINT_RULES, compat.RESOLUTION_RULES)
"""Before relations are resolved, and at the end of each round in which they are."""


def install_widened_writes(gateway: Gateway, state: JavaObject) -> None:
    """Let writes of a session bring new columns. Does nothing when done."""
    proxy = (FUNCTION, WidenedWriteProxy(gateway, state))
    keys = ("[Ljava.lang.String;", gateway.strings(KEYS))
    add_rule(gateway, state, _RULES, "PaimonWidenedWrites", proxy, keys, first=True)


@dataclass(frozen=True)
class Target:
    """What a write names."""

    catalog_name: str
    loaded: LoadedTable
    catalog: JavaObject
    """``Option[CatalogPlugin]``."""
    ident: JavaObject
    """``Option[Identifier]``."""
    options: Mapping[str, str]
    """Of the relation."""


class WidenedWriteProxy(SessionProxy):
    """Gives a write the table with the columns of its rows; answers ``java.util.function.Function``."""

    def apply(self, statement: JavaObject) -> JavaObject:
        """Return the write into the wider table; the same write without new columns, or where Spark refuses it.

        Raises:
            UnsupportedError: Paimon has no type for a new column.
        """
        try:
            target = self.target_of(statement.table())
            query = analyzed(self.gateway, self.state, statement.query())
            columns = python_struct(query.schema())
        except (JavaCallError, CapturedException, TableNotFoundError):  # Spark says so
            return statement
        if target is None:
            return statement
        rules = rules_of({**target.options, **self._write_options(statement)}, target.loaded)
        if rules is None:
            return statement
        schema = target.loaded.table.schema
        merged = with_columns(schema, from_spark_struct(typed_columns(columns, schema)), rules)
        is_wider = merged is not schema
        loaded = widened(target.loaded, merged, rules) if is_wider else target.loaded
        relation = self.new_relation(TableProxy(self.gateway, target.catalog_name, loaded), target)
        filled = self._filled_query(query, java_list(relation.output()))
        if filled is None and not is_wider:
            return statement
        if statement.getClass().getSimpleName() != "InsertIntoStatement":
            wide = statement.withNewTable(relation) if is_wider else statement
            return wide if filled is None else wide.withNewQuery(filled)
        table, parts, named, given, *others = (
            statement.productElement(number) for number in range(statement.productArity())
        )
        return statement.copy(relation if is_wider else table, parts, named, filled or given, *others)

    def _filled_query(self, query: JavaObject, columns: Sequence[JavaObject]) -> JavaObject | None:
        """Return the query with nulls for the fields that its STRUCTs lack, at any depth; None where it lacks none."""
        named = {str(column.name()).lower(): column for column in columns}
        filling = new_object(self.gateway, "PaimonFilledStructs")
        nothing, none = scala_seq(self.gateway, []), self.gateway.jvm.scala.Option.empty()
        chosen, is_other = [], False
        for own in java_list(query.output()):
            column = named.get(str(own.name()).lower())
            filled = own if column is None else filling.filled(own, column.dataType(), None)
            if not filled.equals(own):
                is_other = True
                new_id = compat.NAMED_EXPRESSION.of(self.gateway).newExprId()
                filled = compat.ALIAS(self.gateway, filled, own.name(), new_id, nothing, none, nothing)
            chosen.append(filled)
        return compat.PROJECT(self.gateway, scala_seq(self.gateway, chosen), query) if is_other else None

    def target_of(self, relation: JavaObject) -> Target | None:
        """Return the Paimon table of a relation; None for a table of Spark's."""
        options = self.gateway.string_dict(relation.options().asCaseSensitiveMap())
        options = {key: value for key, value in options.items() if key != _PRIVILEGES}
        if relation.getClass().getSimpleName() == "DataSourceV2Relation":
            table = relation.table()
            found = python_object(self.gateway, table) if is_proxy(self.gateway, table) else None
            if not isinstance(found, TableProxy):
                return None
            return Target(found.catalog_name, found.loaded, relation.catalog(), relation.identifier(), options)
        named = catalog_ident(self.gateway, self.state, relation)
        if named is None or named_system_table(named[1].name()) is not None:
            return None
        catalog, namespace, name = python_object(self.gateway, named[0]), list(named[1].namespace()), named[1].name()
        database = ".".join(namespace)
        session = session_options(all_settings(self.gateway), catalog.catalog_name, database, name, write=True)
        loaded = load_catalog_table(catalog.catalog, namespace, name, None, session=session)
        some = self.gateway.jvm.scala.Option.apply
        return Target(catalog.catalog_name, loaded, some(named[0]), some(named[1]), options)

    def _write_options(self, statement: JavaObject) -> dict[str, str]:
        if statement.getClass().getSimpleName() == "InsertIntoStatement":
            return {}
        return java_map(statement.writeOptions())

    def new_relation(self, table: TableProxy, target: Target) -> JavaObject:
        """Return a ``DataSourceV2Relation``. It is made without options, which differ between versions of Spark."""
        relation = compat.RELATION.of(self.gateway).create(java_proxy(table), target.catalog, target.ident)
        values = [relation.productElement(number) for number in range(relation.productArity())]
        values[_OPTIONS] = self.gateway.options(target.options)
        return relation.copy(*values)


def rules_of(options: Mapping[str, str], loaded: LoadedTable) -> MergeRules | None:
    """How the columns of the table change: the options of a write win over the session's."""
    given = [as_paimon_options({key.lower(): value}) for key, value in options.items() if key.lower() in KEYS]
    return merge_rules(loaded.options, *given)


def widened(loaded: LoadedTable, schema: TableSchema, rules: MergeRules) -> LoadedTable:
    """The table as if it had a schema already, to which its write changes it."""
    return replace(loaded, table=replace(loaded.table, schema=schema), widened=rules)


_STARS = {"UpdateStarAction", "InsertStarAction"}


def install_widened_merges(gateway: Gateway, state: JavaObject) -> None:
    """Let MERGE of a session bring new columns. Does nothing when done."""
    proxy = (FUNCTION, WidenedMergeProxy(gateway, state))
    keys = ("[Ljava.lang.String;", gateway.strings(KEYS))
    add_rule(gateway, state, (compat.HINT_RULES,), "PaimonWidenedMerges", proxy, keys, first=True)


class WidenedMergeProxy(WidenedWriteProxy):
    """Gives a MERGE the table with the columns of its source; answers ``java.util.function.Function``."""

    def apply(self, statement: JavaObject) -> JavaObject:
        """Return the MERGE into the wider table; the same one where Spark refuses it, or the table is Spark's."""
        aliases, relation = [], statement.targetTable()
        while relation.getClass().getSimpleName() == "SubqueryAlias":
            aliases.append(relation)
            relation = relation.child()
        if relation.getClass().getSimpleName() != "UnresolvedRelation":
            return statement
        try:
            target = self.target_of(relation)
            if target is None:
                return statement
            rules = rules_of(target.options, target.loaded)
            if rules is None and statement.withSchemaEvolution():
                rules = MergeRules(widen=False, explicit=False)
            if rules is None:
                return statement
            source = analyzed(self.gateway, self.state, statement.sourceTable())
        except (JavaCallError, CapturedException, TableNotFoundError):  # Spark says so
            return statement
        table = self._widened_table(statement, target, source, rules)
        named_relation = self.new_relation(table, target)
        named = compat.SUBQUERY_ALIASES.of(self.gateway).apply(
            scala_seq(self.gateway, [table.catalog_name, *target.loaded.name.split(".", 1)]), named_relation
        )
        for alias in reversed(aliases):
            named = compat.SUBQUERY_ALIASES.of(self.gateway).apply(alias.alias(), named)
        lists = (statement.matchedActions(), statement.notMatchedActions())
        columns = java_list(named_relation.output())
        actions = [
            scala_seq(self.gateway, [self._without_star(action, source, columns) for action in java_list(given)])
            for given in lists
        ]
        condition, others = statement.mergeCondition(), statement.notMatchedBySourceActions()
        return statement.copy(named, source, condition, *actions, others, False)

    def _widened_table(
        self, statement: JavaObject, target: Target, source: JavaObject, rules: MergeRules
    ) -> TableProxy:
        columns = python_struct(source.schema())
        actions = [*java_list(statement.matchedActions()), *java_list(statement.notMatchedActions())]
        if not any(action.getClass().getSimpleName() in _STARS for action in actions):
            named = {name.lower() for action in actions for name in _assigned_names(action)}
            columns = StructType([field for field in columns.fields if field.name.lower() in named])
        schema = target.loaded.table.schema
        merged = with_columns(schema, from_spark_struct(typed_columns(columns, schema)), rules)
        loaded = replace(target.loaded, evolves_schema=True)
        if merged is not loaded.table.schema:
            loaded = widened(loaded, merged, rules)
        return TableProxy(self.gateway, target.catalog_name, loaded)

    def _without_star(self, action: JavaObject, source: JavaObject, columns: Sequence[JavaObject]) -> JavaObject:
        """Return an action that assigns each column of the source to that of its name.

        Fields that a STRUCT of the source lacks keep their values in an UPDATE, and are null in an INSERT.
        """
        kind = action.getClass().getSimpleName()
        if kind not in _STARS:
            return action
        attribute = compat.UNRESOLVED_ATTRIBUTE
        assignments = scala_seq(
            self.gateway,
            [
                compat.ASSIGNMENT(
                    self.gateway,
                    attribute(self.gateway, scala_seq(self.gateway, [own.name()])),
                    self._filled(own, columns, keeps=kind == "UpdateStarAction"),
                )
                for own in java_list(source.output())
            ],
        )
        if kind == "InsertStarAction":
            return compat.INSERT_ACTION(self.gateway, action.condition(), assignments)
        try:
            return compat.UPDATE_ACTION(self.gateway, action.condition(), assignments)  # 4.0
        except JavaCallError:
            return compat.UPDATE_ACTION(self.gateway, action.condition(), assignments, True)

    def _filled(self, own: JavaObject, columns: Sequence[JavaObject], *, keeps: bool) -> JavaObject:
        """Return a column of the source with the fields of STRUCTs that it lacks."""
        column = next((each for each in columns if str(each.name()).lower() == str(own.name()).lower()), None)
        if column is None:
            return own
        old = column if keeps else None
        return new_object(self.gateway, "PaimonFilledStructs").filled(own, column.dataType(), old)


def _assigned_names(action: Any) -> Sequence[str]:
    """The names of the columns that an action assigns, as far as they are plain."""
    if action.getClass().getSimpleName() not in ("UpdateAction", "InsertAction"):
        return []
    keys = [assignment.key() for assignment in java_list(action.assignments())]
    plain = [key for key in keys if key.getClass().getSimpleName() == "UnresolvedAttribute"]
    return [str(key.nameParts().last()) for key in plain]


"""Before relations are resolved, and at the end of each round in which they are."""


def install_insert_columns(gateway: Gateway, state: JavaObject) -> None:
    """Let writes of a session leave out columns. Does nothing where Spark can, or when done."""
    if features.LEFT_OUT_COLUMNS.is_for(features.spark_version(gateway)):
        proxy = (FUNCTION, InsertProxy(gateway, state))
        add_rule(gateway, state, _RULES, "PaimonLeftOutColumns", proxy)


class InsertProxy(SessionProxy):
    """Completes the columns of a write into one of our tables; answers ``java.util.function.Function``."""

    def apply(self, statement: JavaObject) -> JavaObject:
        """Return the statement with all columns, or unchanged; then Spark raises its error."""
        try:
            return self._completed(statement)
        except CALL_ERRORS:  # there is no such table, say
            return statement

    def _completed(self, statement: JavaObject) -> JavaObject:
        insert = statement.getClass().getSimpleName() == "InsertIntoStatement"
        table = self._table(statement.table())
        partition = java_map(statement.partitionSpec()) if insert else {}
        if table is None or any(value.isEmpty() for value in partition.values()):
            return statement
        listed = [str(name) for name in java_list(statement.userSpecifiedCols())] if insert else []
        given = listed or self._names(statement.query())
        known = {name.lower() for name in (*given, *partition)}
        missing = [column for column in table.columns() if column.name().lower() not in known]
        values = [_default_of(column) for column in missing]
        if not missing or None in values:
            return statement
        items = [f"{value} AS {quoted_name(column.name())}" for value, column in zip(values, missing, strict=True)]
        select = self.state.sqlParser().parsePlan(f"SELECT *, {', '.join(items)} FROM rows")
        query = select.withNewChildren(scala_seq(self.gateway, [statement.query()]))
        if not insert:
            return statement.withNewQuery(query)
        return statement.copy(
            statement.table(),
            statement.partitionSpec(),
            scala_seq(self.gateway, [*listed, *(column.name() for column in missing)] if listed else []),
            query,
            statement.overwrite(),
            statement.ifPartitionNotExists(),
            statement.byName(),
        )

    def _names(self, query: JavaObject) -> list[str]:
        """Return the columns of a query, which DataFrame writers pass before its analysis."""
        return [str(column.name()) for column in java_list(analyzed(self.gateway, self.state, query).output())]

    def _table(self, relation: JavaObject) -> JavaObject | None:
        """Return the table of a relation, if the table is written in Python."""
        if relation.getClass().getSimpleName() != "DataSourceV2Relation":
            return catalog_table(self.gateway, self.state, relation)
        table = relation.table()
        return table if is_proxy(self.gateway, table) else None


def _default_of(column: JavaObject) -> str | None:
    """Return the value of a column that an INSERT leaves out, as SQL; None for a NOT NULL column without a default."""
    default = column.defaultValue()
    if default is not None:
        return str(default.getSql())
    return f"CAST(NULL AS {column.dataType().sql()})" if column.nullable() else None
