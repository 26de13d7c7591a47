"""A MERGE whose sides are DataFrames, and whose conditions and values are Columns or SQL over both. On any session.

Both sides have an alias, by which conditions and values name their columns. Values are cast as Spark stores values.
What SQL text compares and assigns is known as far as it is plain: columns behind the aliases of two sides.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf

from paimon_spark.errors import OptionError, SchemaMismatchError
from paimon_spark.spark.columns.types import comes_through_arrow, stored, to_spark_struct, to_spark_type
from paimon_spark.spark.sql.column_conditions import as_sql
from paimon_spark.spark.sql.column_defaults import inserted_default
from paimon_spark.spark.sql.matched_frames import assigned_field, assigned_values, metadata_named
from paimon_spark.spark.sql.merge_strategy import (
    Action,
    BesideOldRows,
    Clause,
    ClauseShape,
    Comparison,
    Equality,
    MergeRows,
    MergeShape,
    MergeStatement,
    columns_of_deletes,
)
from paimon_spark.spark.sql.row_changes import refuse_nondeterministic
from paimon_spark.spark.sql.store_assignment import Filling, stored_value
from paimon_spark.spark.statements.cursor import split_name
from paimon_spark.spark.statements.expressions import Named, column_behind
from paimon_spark.spec.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable


def equal_names(on: str, aliases: tuple[str, str]) -> tuple[list[tuple[str, str]], bool]:
    """The columns of both sides that a condition compares, as far as it joins plain comparisons by AND.

    Returns:
        The names of target and source, and whether the condition says nothing else.
    """
    from paimon_spark.spark.statements.query_trees import compared_columns  # imports sqlglot

    compared, is_whole = compared_columns(on)
    own_alias, other_alias = (alias.lower() for alias in aliases)
    found: list[tuple[str, str]] = []
    for pair in compared:
        for own, other in (pair, pair[::-1]):
            if own[0].lower() == own_alias and other[0].lower() == other_alias:
                found.append((own[1], other[1]))
                break
    return found, is_whole and len(found) == len(compared)


GIVEN = "_paimon_given_"
"""Columns of a source whose names begin so are none of its own: a front has worked conditions and values out."""
TargetRows = Callable[[int | None, Sequence[str], Sequence[str], str | None], "DataFrame"]
"""Rows of a snapshot (None: there is none): the columns of these names at least, then the metadata columns of these.

Where the last argument, SQL over the columns of the table, is given: only those for which it is true."""


@dataclass(frozen=True)
class GivenClause:
    """One WHEN clause as a caller gives it."""

    action: Action
    condition: str | Column | None = None
    values: Mapping[str, str | Column] | None = None
    """By column, or by the path of a field of a struct; None: each column gets that of its name in the source."""

    def told(self) -> GivenClause:
        """The clause with its Columns as SQL, as far as they can be told."""
        values = None if self.values is None else {name: as_sql(value) for name, value in self.values.items()}
        return replace(self, condition=None if self.condition is None else as_sql(self.condition), values=values)

    def expressions(self) -> list[str | Column]:
        """Its condition and its values."""
        return [*(() if self.condition is None else (self.condition,)), *(self.values or {}).values()]


@dataclass(frozen=True)
class FrameMerge(MergeStatement):
    """A MERGE over DataFrames."""

    table: FileStoreTable
    """The target, with the options of the statement."""
    target: TargetRows
    source: Callable[[int | None], DataFrame]
    """Gives the source, where the target is read at a snapshot."""
    aliases: tuple[str, str]
    """Of target and source."""
    on: str | Column | tuple[str | Column, ...]
    """A condition, or several that AND joins."""
    matched: Sequence[GivenClause] = ()
    not_matched: Sequence[GivenClause] = ()
    not_matched_by_source: Sequence[GivenClause] = ()
    star: frozenset[str] | None = None
    """The columns, in lower case, that a clause without values assigns; None: all, and the schema does not evolve."""
    partly: frozenset[str] = frozenset()
    """The columns whose STRUCTs lack fields in the source: such a clause of UPDATE keeps the values of these fields."""

    @property
    def actions(self) -> Collection[Action]:
        """What its clauses do."""
        return {clause.action for clause in self._clauses()}

    @property
    def _conditions(self) -> tuple[str | Column, ...]:
        """The conditions that AND joins in ON."""
        return self.on if isinstance(self.on, tuple) else (self.on,)

    def _clauses(self) -> Iterator[GivenClause]:
        yield from (*self.matched, *self.not_matched, *self.not_matched_by_source)

    def check(self) -> None:
        """Refuse what cannot be right, before anything is read.

        Raises:
            OptionError: it has no clause, or one that cannot be reached.
            UnsupportedError: a condition has another value at each evaluation.
        """
        if not self.actions:
            raise OptionError("a merge needs a clause that says what to do, such as when_matched_update()")
        refuse_nondeterministic(*self._conditions, *(clause.condition for clause in self._clauses()))
        for clauses in (self.matched, self.not_matched, self.not_matched_by_source):
            if any(clause.condition is None for clause in clauses[:-1]):
                raise OptionError("only the last clause of its kind can do without a condition: others are not reached")

    def rows(self, snapshot_id: int | None, locations: Sequence[str]) -> MergeRows:
        """Both sides at a snapshot."""
        own, other = self.aliases
        target = self._target(snapshot_id, locations, None)
        source = self.source(snapshot_id).alias(other)
        values = _Values(self, target, source)
        shape = self._shape(source)
        old = {name: sf.col(f"{quoted_name(own)}._paimon_old_{at}") for at, name in enumerate(self._columns())}
        rows = MergeRows(
            target=target,
            source=source,
            on=reduce(operator.and_, map(_column, self._conditions)),
            old={**old, **{name: _named(own, name) for name in locations}},
            matched=values.clauses(self.matched),
            not_matched=values.clauses(self.not_matched),
            not_matched_by_source=values.clauses(self.not_matched_by_source),
            shape=shape,
            equalities=[
                Equality(own_name, _named(other, other_name)) for own_name, other_name in self._compared(source)[0]
            ],
            narrow=lambda where: self._target(snapshot_id, locations, where),
        )
        return replace(rows, beside=lambda: self._beside(rows, source))

    def _beside(self, rows: MergeRows, source: DataFrame) -> BesideOldRows:
        """How clauses are evaluated over rows of the source, and old rows of the target, that nobody joined.

        Both sides are STRUCTs under their aliases, so that texts name their columns as those of joined tables. A name
        that one side alone has is a column besides.
        """
        read = self._read_of_source(source.columns)
        keys = self.table.schema.primary_keys
        others = {name.lower() for name in source.columns}
        own_names = {name.lower() for name in self.table.schema.field_names}

        def over(joined: DataFrame, names: Sequence[str]) -> MergeRows:
            given = [sf.col(name) for name in joined.columns]
            own = dict(zip([*keys, *names], [*given[: len(keys)], *given[len(keys) + len(read) :]], strict=False))
            other = dict(zip(read, given[len(keys) :], strict=False))
            sides = [
                sf.struct(*(column.alias(name) for name, column in side.items())).alias(alias)
                for alias, side in zip(self.aliases, (own, other), strict=True)
                if side
            ]
            alone = [column.alias(name) for name, column in own.items() if name.lower() not in others]
            alone += [column.alias(name) for name, column in other.items() if name.lower() not in own_names]
            old = {name: f"_paimon_old_{at}" for at, name in enumerate(own)}
            held = [own[name].alias(shown) for name, shown in old.items()]
            frame = joined.select(*sides, *alone, *held, *given[len(keys) + len(read) + len(names) :])
            return replace(rows, target=frame, old={name: sf.col(shown) for name, shown in old.items()})

        return BesideOldRows([_named(self.aliases[1], name) for name in read], over)

    def _read_of_source(self, columns: Sequence[str]) -> list[str]:
        """The columns of the source that clauses may name."""
        named = Named.by(*(given for clause in self._clauses() for given in clause.expressions()))
        own = {name.lower() for name in self.table.schema.field_names}
        has_star = any(clause.values is None and clause.action is not Action.DELETE for clause in self._clauses())
        return [name for name in columns if named.has(name) or (has_star and name.lower() in own)]

    def shape(self) -> MergeShape:
        """What the statement says."""
        latest = self.table.snapshots.latest()
        return self._shape(self.source(None if latest is None else latest.id))

    def error_of_columns(self) -> AnalysisException | None:
        """What Spark says of conditions and values over the columns of both sides alone; None where it takes them.

        `rows` adds columns, and leaves out those that are not needed: its errors suggest other names.
        """
        latest = self.table.snapshots.latest()
        snapshot_id = None if latest is None else latest.id
        own, other = self.aliases
        target = self.target(snapshot_id, self.table.schema.field_names, self._with_named(()), None)
        given = [_column(value) for clause in self._clauses() for value in clause.expressions()]
        try:
            joined = target.alias(own).join(
                self.source(snapshot_id).alias(other), reduce(operator.and_, map(_column, self._conditions))
            )
            assert joined.select(*(value.alias(str(at)) for at, value in enumerate(given))).schema is not None
        except AnalysisException as error:
            return error
        return None

    def _target(self, snapshot_id: int | None, locations: Sequence[str], where: str | None) -> DataFrame:
        """The target under its alias; a column of the table comes as the file holds it besides."""
        target = self.target(snapshot_id, self._columns(), self._with_named(locations), where)
        held = [column.alias(f"_paimon_old_{at}") for at, column in enumerate(stored(target, self._columns()))]
        return target.select("*", *held).alias(self.aliases[0])

    def _with_named(self, locations: Sequence[str]) -> list[str]:
        """These metadata columns, and those that the statement names."""
        return list(dict.fromkeys((*locations, *metadata_named(self._named(), self.table.schema))))

    def _named(self) -> Named:
        """What the statement names."""
        return Named.by(*self._conditions, *(given for clause in self._clauses() for given in clause.expressions()))

    def _compared(self, source: DataFrame) -> tuple[list[tuple[str, str]], bool]:
        """The columns of the table and of the source that ON compares; and whether it says nothing else."""
        own = {name.lower(): name for name in self.table.schema.field_names}
        other = {name.lower(): name for name in source.columns}
        says = [equal_names(part, self.aliases) if isinstance(part, str) else ([], False) for part in self._conditions]
        compared = [pair for pairs, _ in says for pair in pairs]
        known = [(own[a.lower()], other[b.lower()]) for a, b in compared if a.lower() in own and b.lower() in other]
        return known, all(is_whole for _, is_whole in says) and len(known) == len(compared)

    def _shape(self, source: DataFrame) -> MergeShape:
        """What the statement says about the columns of a source."""
        given = {field.name.lower(): field for field in source.schema.fields}
        compared, is_whole = self._compared(source)
        schema = self.table.schema
        comparisons = [
            Comparison(own, _OfSource(other.lower()), given[other.lower()].dataType == to_spark_type(kind))
            for own, other in compared
            for kind in (schema.field(own).type,)
        ]
        matched, not_matched, by_source = (
            [self._clause_shape(clause, given) for clause in clauses]
            for clauses in (self.matched, self.not_matched, self.not_matched_by_source)
        )
        return MergeShape(
            comparisons,
            is_whole,
            matched,
            not_matched,
            by_source,
            reads_target=partial(self._read_of_target, given),
            may_fail=partial(self._may_fail, given),
            joins_itself=partial(self._joins_itself, given),
        )

    def _clause_shape(self, clause: GivenClause, given: Collection[str]) -> ClauseShape:
        """What a clause says; an expression is equal to none but a column of the source to itself."""
        names = self.table.schema.field_names
        own = {name.lower(): name for name in names}
        values: dict[str, Hashable] = {}
        if clause.action is Action.DELETE:
            return ClauseShape(clause.action, clause.condition is not None)
        if clause.values is None:
            star = names if self.star is None else [name for name in names if name.lower() in self.star]
            values = {name: _OfSource(name.lower()) for name in star}
        for text, value in (clause.values or {}).items():
            path = (text,) if text in names else split_name(text)
            column = column_behind(value, self.aliases[1]) if len(path) == 1 else None
            values[own.get(path[0].lower(), path[0])] = object() if column not in given else _OfSource(str(column))
        if clause.action is Action.INSERT:
            values = {name: _Default(name) for name in names} | values
        return ClauseShape(clause.action, clause.condition is not None, values)

    def _may_read_target(self, given: Collection[str]) -> bool:
        """Whether a condition or a value of a clause may name the target; `given` are the columns of the source."""
        clauses = list(self._clauses())
        names = self.table.schema.field_names
        assigned = [name for clause in clauses for name in clause.values or {} if name not in names]
        if self.partly or any(len(split_name(name)) > 1 for name in assigned):
            return True  # structs of which other fields keep their values
        expressions = [given for clause in clauses for given in clause.expressions()]
        own = self.aliases[0].lower()
        if not expressions or own in given:
            return bool(expressions)
        named = Named.by(*expressions)
        hidden = [own, *(name for name in names if name.lower() not in given)]
        return any(named.has(name) for name in hidden) or bool(metadata_named(named, self.table.schema))

    def _read_of_target(self, given: Collection[str]) -> Collection[str] | None:
        """The columns of the target that clauses may read; None where they may read metadata columns."""
        if not self._may_read_target(given):
            return ()
        names = self.table.schema.field_names
        named = Named.by(*(each for clause in self._clauses() for each in clause.expressions()))
        if metadata_named(named, self.table.schema):
            return None
        own = {name.lower(): name for name in names}
        assigned = [name for clause in self._clauses() for name in clause.values or {} if name not in names]
        parts = {own.get(path[0].lower(), path[0]) for path in map(split_name, assigned) if len(path) > 1}
        return {*(name for name in names if named.has(name)), *self.partly, *parts}

    def _joins_itself(self, given: Mapping[str, StructField]) -> bool:
        """Whether clauses are texts over sides whose aliases no column has, and what they read comes through Arrow."""
        expressions = [each for clause in self._clauses() for each in clause.expressions()]
        names = {*given, *(name.lower() for name in self.table.schema.field_names)}
        if not all(isinstance(each, str) for each in expressions) or names & {alias.lower() for alias in self.aliases}:
            return False
        return all(comes_through_arrow(given[name].dataType) for name in self._read_of_source(list(given)))

    def _may_fail(self, given: Mapping[str, StructField], columns: Collection[str]) -> bool:
        """Whether a condition, or a value of these columns, may be an error for some rows of the source."""
        clauses = (*self.matched, *self.not_matched)
        values = [item for clause in clauses for item in self._texts(clause).items() if item[0] in columns]
        conditions = [clause.condition for clause in clauses if clause.condition is not None]
        sure = _SureValues(self.aliases[1], given)
        return not all(sure.has_type(condition) for condition in conditions) or not all(
            sure.fits(value, self.table.schema.field(name)) for name, value in values
        )

    def _texts(self, clause: GivenClause) -> dict[str, str | Column]:
        """The values of a clause by the columns of the table."""
        names = self.table.schema.field_names
        if clause.action is Action.DELETE:
            return {}
        if clause.values is None:
            star = [name for name in names if self.star is None or name.lower() in self.star]
            values: dict[str, str | Column] = {n: f"{self.aliases[1]}.{quoted_name(n)}" for n in star}
        else:
            own = {name.lower(): name for name in names}
            paths = {(text,) if text in names else split_name(text): value for text, value in clause.values.items()}
            values = {own.get(path[0].lower(), path[0]): value for path, value in paths.items()}
        if clause.action is Action.INSERT:
            defaults = {field.name: inserted_default(field) for field in self.table.schema.fields}
            return {**defaults, **values}
        return values

    def _columns(self) -> list[str]:
        """The columns of the target that may be needed: by their names, or since they keep their values."""
        schema = self.table.schema
        deletes = columns_of_deletes(schema) if Action.DELETE in self.actions and schema.kind.is_keyed else ()
        kept = {*schema.primary_keys, *deletes}
        for clause in self._clauses():
            if clause.action is Action.UPDATE:
                assigned = self.star if clause.values is None else _assigned_whole(clause.values, schema.field_names)
                kept |= {n for n in schema.field_names if assigned is not None and n.lower() not in assigned}
                kept |= self.partly if clause.values is None else set()
        named = self._named()
        found = [name for name in schema.field_names if name in kept or named.has(name)]
        return found or [schema.field_names[0]]


@dataclass(frozen=True)
class _OfSource:
    """A value that is a column of the source, in lower case."""

    name: str


@dataclass(frozen=True)
class _Default:
    """The value of a column that an INSERT leaves out."""

    column: str


class _SureValues:
    """Finds values over a source that are an error for none of its rows; a Column, which is no text, counts as none."""

    def __init__(self, alias: str, source: Mapping[str, StructField]) -> None:
        self._alias = alias
        self._source = source
        types = {name: field.dataType.simpleString() for name, field in source.items()}
        self._types: dict[tuple[str, ...], str] = {
            parts: kind for name, kind in types.items() for parts in ((name,), (alias.lower(), name))
        }

    def has_type(self, value: str | Column) -> bool:
        """Whether SQL has a value or NULL for every row."""
        from paimon_spark.spark.statements.sure_values import sure_type  # imports sqlglot

        return isinstance(value, str) and sure_type(value, self._types) is not None

    def fits(self, value: str | Column, field: DataField) -> bool:
        """Whether the values of all rows can be stored in a column of a table."""
        from paimon_spark.spark.statements.sure_values import casts_surely, sure_type  # imports sqlglot

        target = to_spark_type(field.type)
        source = self._source.get(column_behind(value, self._alias) or "")
        if source is not None and source.dataType == target:
            return field.type.nullable or not source.nullable
        kind = sure_type(value, self._types) if isinstance(value, str) else None
        return field.type.nullable and kind is not None and casts_surely(kind, target.simpleString())


def _assigned_whole(values: Collection[str], columns: Collection[str]) -> set[str]:
    """The columns, in lower case, that values are for; a struct whose field gets a value is none of them."""
    paths = [(name,) if name in columns else split_name(name) for name in values]
    return {path[0].lower() for path in paths if len(path) == 1}


def _column(given: str | Column) -> Column:
    return sf.expr(given) if isinstance(given, str) else given


def _named(alias: str, name: str) -> Column:
    return sf.col(f"{quoted_name(alias)}.{quoted_name(name)}")


def equal_columns(aliases: tuple[str, str], names: Sequence[str]) -> str:
    """The condition that columns of these names are equal on both sides."""
    own, other = map(quoted_name, aliases)
    return " AND ".join(f"{own}.{name} = {other}.{name}" for name in map(quoted_name, names))


class _Values:
    """The values of clauses as Columns over the join of both sides, cast to the columns of the table."""

    def __init__(self, merge: FrameMerge, target: DataFrame, source: DataFrame) -> None:
        self._merge = merge
        self._target = target
        self._source = source
        self._names = merge.table.schema.field_names
        self._fields = to_spark_struct(merge.table.schema.fields).fields
        self._star: dict[str, Column] | None = None
        self._ansi = str(source.sparkSession.conf.get("spark.sql.ansi.enabled")).lower() == "true"

    def clauses(self, given: Sequence[GivenClause]) -> list[Clause]:
        return [self._clause(clause) for clause in given]

    def _clause(self, clause: GivenClause) -> Clause:
        condition = None if clause.condition is None else _column(clause.condition)
        if clause.action is Action.DELETE:
            return Clause(clause.action, condition)
        is_star = clause.values is None and self._merge.star is None
        if is_star and self._star is not None:
            return Clause(clause.action, condition, self._star)
        raw = self._by_name() if clause.values is None else self._given(clause.values)
        if clause.action is Action.INSERT:
            for column in self._merge.table.schema.fields:
                if column.name not in raw:
                    raw[column.name] = self._default(column)
        values = self._cast(raw, keeps=clause.values is None and clause.action is Action.UPDATE)
        if is_star:
            self._star = values
        return Clause(clause.action, condition, values)

    @staticmethod
    def _default(column: DataField) -> Column:
        """What a column gets that an INSERT leaves out."""
        if column.default_value is None and not column.type.nullable:
            raise SchemaMismatchError(
                f"column {column.name} is NOT NULL and has no default: when_not_matched_insert must give its value"
            )
        return sf.expr(inserted_default(column))

    def _by_name(self) -> dict[str, Column]:
        """Each column of the table from that of its name in the source."""
        given = {name.lower(): name for name in self._source.columns}
        star = self._merge.star
        names = [name for name in self._names if star is None or name.lower() in star]
        lacking = [name for name in names if name.lower() not in given]
        if lacking:
            raise SchemaMismatchError(
                f"the source of the merge has no column {', '.join(lacking)}, which the table has: give the values of "
                "the columns that it has, or add it to the source"
            )
        return {name: _named(self._merge.aliases[1], given[name.lower()]) for name in names}

    def _given(self, values: Mapping[str, str | Column]) -> dict[str, Column]:
        paths = {(name,) if name in self._names else split_name(name): _column(v) for name, v in values.items()}
        trees: dict[str, Any] = assigned_values(paths, self._names)
        own = self._merge.aliases[0]
        by_name = {field.name: field for field in self._fields}
        return {name: assigned_field(_named(own, name), by_name[name], tree) for name, tree in trees.items()}

    def _filling(self, name: str, *, keeps: bool) -> Filling | None:
        """What fields become that a STRUCT lacks; None where that is an error."""
        if self._merge.star is None:
            return None
        return Filling(_named(self._merge.aliases[0], name) if keeps and name in self._merge.partly else None)

    def _cast(self, raw: Mapping[str, Column], *, keeps: bool) -> dict[str, Column]:
        fields: list[StructField] = [field for field in self._fields if field.name in raw]
        # types are looked up once for all values of a clause
        both = self._target.join(self._source, sf.lit(True))
        given = both.select(*(raw[field.name].alias(str(at)) for at, field in enumerate(fields))).schema
        table = [self._merge.table.path]
        return {
            field.name: stored_value(
                raw[field.name],
                source.dataType,
                field,
                table,
                ansi=self._ansi,
                filling=self._filling(field.name, keeps=keeps),
            )
            for field, source in zip(fields, given.fields, strict=True)
        }
