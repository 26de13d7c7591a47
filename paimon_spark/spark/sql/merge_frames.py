"""A MERGE whose sides are DataFrames, and whose conditions and values are Columns or SQL over both. On any session.

Both sides have an alias, by which conditions and values name their columns. Values are cast as Spark stores values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf

from paimon_spark.errors import OptionError, SchemaMismatchError
from paimon_spark.spark.columns.char_columns import stored
from paimon_spark.spark.columns.types import to_spark_struct, to_spark_type
from paimon_spark.spark.sql.column_defaults import inserted_default
from paimon_spark.spark.sql.matched_frames import assigned_field, assigned_values, metadata_named
from paimon_spark.spark.sql.merge_pruning import Equality, equal_names
from paimon_spark.spark.sql.merge_rows import Action, Clause, MergeRows, MergeStatement, columns_of_deletes
from paimon_spark.spark.sql.row_changes import refuse_nondeterministic
from paimon_spark.spark.sql.statement_tokens import split_name
from paimon_spark.spark.sql.store_assignment import Filling, stored_value
from paimon_spark.spec.filter_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable

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
    on: str | Column
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
        for condition in (self.on, *(clause.condition for clause in self._clauses())):
            refuse_nondeterministic(str(condition))
        for clauses in (self.matched, self.not_matched, self.not_matched_by_source):
            if any(clause.condition is None for clause in clauses[:-1]):
                raise OptionError("only the last clause of its kind can do without a condition: others are not reached")

    def rows(self, snapshot_id: int | None, places: Sequence[str]) -> MergeRows:
        """Both sides at a snapshot."""
        own, other = self.aliases
        target = self._target(snapshot_id, places, None)
        source = self.source(snapshot_id).alias(other)
        values = _Values(self, target, source)
        old = {name: sf.col(f"{quoted_name(own)}._paimon_old_{at}") for at, name in enumerate(self._columns())}
        matched, not_matched = values.clauses(self.matched), values.clauses(self.not_matched)
        return MergeRows(
            target=target,
            source=source,
            on=_column(self.on),
            old={**old, **{name: _named(own, name) for name in places}},
            matched=matched,
            not_matched=not_matched,
            not_matched_by_source=values.clauses(self.not_matched_by_source),
            upsert=self._is_upsert(source),
            equalities=self._equalities(source),
            narrow=lambda where: self._target(snapshot_id, places, where),
            by_key=self._by_key(source, [*matched, *not_matched]),
        )

    def _target(self, snapshot_id: int | None, places: Sequence[str], where: str | None) -> DataFrame:
        """The target under its alias; a column of the table comes as the file holds it besides."""
        target = self.target(snapshot_id, self._columns(), self._with_named(places), where)
        held = [column.alias(f"_paimon_old_{at}") for at, column in enumerate(stored(target, self._columns()))]
        return target.select("*", *held).alias(self.aliases[0])

    def _with_named(self, places: Sequence[str]) -> list[str]:
        """These metadata columns, and those that the statement names."""
        texts = [str(self.on)]
        for clause in self._clauses():
            texts += [str(clause.condition), *map(str, (clause.values or {}).values())]
        return list(dict.fromkeys((*places, *metadata_named(" ".join(texts), self.table.schema))))

    def _equalities(self, source: DataFrame) -> list[Equality]:
        """The parts of ON that compare a column of the table with one of the source."""
        own = {name.lower(): name for name in self.table.schema.field_names}
        other = {name.lower(): name for name in source.columns}
        compared = equal_names(self.on, self.aliases)[0] if isinstance(self.on, str) else []
        return [
            Equality(own[one.lower()], _named(self.aliases[1], other[two.lower()]))
            for one, two in compared
            if one.lower() in own and two.lower() in other
        ]

    def _by_key(self, source: DataFrame, clauses: Sequence[Clause]) -> dict[str, Column] | None:
        """The values that ON compares the primary key with, as `MergeRows.by_key` says."""
        named = None if self.partly else self._names_by_key(source)
        others = {name.lower() for name in source.columns}
        if named is None or self.aliases[0].lower() in others:
            return None
        given = (*self.matched, *self.not_matched)
        texts = (str(text) for clause in given for text in (clause.condition, *(clause.values or {}).values()))
        own = {self.aliases[0].lower(), *(name.lower() for name in self.table.schema.field_names)} - others
        if not own.isdisjoint(word.lower() for text in texts for word in re.findall(r"\w+", text)):
            return None  # Spark logs each analysis that fails
        by_key = {key: _named(self.aliases[1], name) for key, name in named.items()}
        used = [*by_key.values(), *(value for clause in clauses for value in clause.values.values())]
        used += [clause.condition for clause in clauses if clause.condition is not None]
        try:
            assert source.select(*(column.alias(str(at)) for at, column in enumerate(used))).schema is not None
        except AnalysisException:
            return None  # one of them names the target
        return by_key

    def _names_by_key(self, source: DataFrame) -> dict[str, str] | None:
        """The columns of the source that ON compares the primary key with; None where a clause may change a key."""
        keys = {name.lower(): name for name in self.table.schema.primary_keys}
        compared, is_whole = equal_names(self.on, self.aliases) if isinstance(self.on, str) else ([], False)
        given = {field.name.lower(): field for field in source.schema.fields}
        found = {own.lower(): other.lower() for own, other in compared}
        if not is_whole or found.keys() != keys.keys() or len(found) < len(compared) or self.not_matched_by_source:
            return None
        for name, other in found.items():
            kind = to_spark_type(self.table.schema.field(keys[name]).type)
            if other not in given or given[other].dataType != kind:
                return None
        changed = {key for key, other in found.items() if key != other}
        for clause in (*self.matched, *self.not_matched):
            if clause.action is Action.DELETE:
                continue
            if clause.values is None:
                if changed or (self.star is not None and not self.star.issuperset(keys)):
                    return None
            elif not self._keeps_keys(clause, found):
                return None
        return {keys[name]: given[other].name for name, other in found.items()}

    def _keeps_keys(self, clause: GivenClause, compared: Mapping[str, str]) -> bool:
        """Whether a clause that gives values gives a key the value that it is compared with."""
        own = self.table.schema.field_names
        given = {((n,) if n in own else split_name(n))[0].lower(): v for n, v in (clause.values or {}).items()}
        for key, other in compared.items():
            value = given.get(key)
            if value is None and clause.action is Action.UPDATE:
                continue
            pair = f"{quoted_name(self.aliases[0])}.x = {value}" if isinstance(value, str) else ""
            if [name.lower() for _, name in equal_names(pair, self.aliases)[0]] != [other]:
                return False
        return True

    def _is_upsert(self, source: DataFrame) -> bool:
        """Whether the target needs not be read, as `MergeRows.upsert` says."""
        star, schema = GivenClause(Action.UPDATE), self.table.schema
        if self.not_matched_by_source or not isinstance(self.on, str) or not schema.primary_keys:
            return False
        if [*self.matched, *self.not_matched] != [star, replace(star, action=Action.INSERT)] or not self.matched:
            return False
        if self.star is not None and not self.star.issuperset(name.lower() for name in schema.field_names):
            return False
        if self.partly:
            return False
        compared, is_whole = equal_names(self.on, self.aliases)
        given = {field.name.lower(): field.dataType for field in source.schema.fields}
        return (
            is_whole
            and all(one.lower() == two.lower() for one, two in compared)
            and {one.lower() for one, _ in compared} == {name.lower() for name in schema.primary_keys}
            and all(given.get(name.lower()) == to_spark_type(schema.field(name).type) for name in schema.primary_keys)
        )

    def _columns(self) -> list[str]:
        """The columns of the target that may be needed: by their names, or since they keep their values."""
        schema = self.table.schema
        deletes = columns_of_deletes(schema) if Action.DELETE in self.actions and schema.primary_keys else ()
        kept = {*schema.primary_keys, *deletes}
        texts = [str(self.on)]
        for clause in self._clauses():
            texts += [str(clause.condition), *map(str, (clause.values or {}).values())]
            if clause.action is Action.UPDATE:
                assigned = self.star if clause.values is None else _assigned_whole(clause.values, schema.field_names)
                kept |= {n for n in schema.field_names if assigned is not None and n.lower() not in assigned}
                kept |= self.partly if clause.values is None else set()
        words = {word.lower() for text in texts for word in re.findall(r"\w+", text)}
        found = [n for n in schema.field_names if n in kept or words & {w.lower() for w in re.findall(r"\w+", n)}]
        return found or [schema.field_names[0]]


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
