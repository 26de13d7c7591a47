"""What a statement is run with: the session, the warehouses that it can name, and what it reads at which snapshot.

A method of a Connect session is given names as well: which of them mean Paimon tables is said here, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from paimon_spark.spark.session.pyspark_members import plain
from paimon_spark.spark.sql.warehouses import (
    TableName,
    Warehouses,
    is_explicit,
    resolve,
    table_not_found,
    warehouses_of,
)
from paimon_spark.spark.statements.cursor import split_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.table.table import FileStoreTable


@dataclass(frozen=True)
class Context:
    """What a statement is run with."""

    spark: SparkSession
    known: Warehouses
    args: Mapping[str, Any] | Sequence[Any] | None = None
    current: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Snapshots to read of tables (by place) that the statement changes, with the columns that they have now."""
    opened: Mapping[tuple[str, str], FileStoreTable] = field(default_factory=dict)
    """Tables (by place) that the statement has opened."""
    frames: Mapping[str, DataFrame] = field(default_factory=dict)
    """DataFrames that queries name like tables, by names that no table has."""
    qualifiers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names in `frames` that stand for a table's rows, which the outermost SELECT is over: what qualifies their
    columns, the whole name of the table or an alias. The last part is their alias."""
    depth: int = 0
    """In how many views the statement is."""
    made: list[str] = field(default_factory=list)
    """What drops the temporary functions and views that calls of a catalog's functions need, in the order made."""

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """The session's settings."""
        return dict(self.spark.conf.getAll)

    def spark_sql(self, text: str, frames: Mapping[str, DataFrame] | None = None) -> DataFrame:
        """Run a text by ``spark.sql``; ``{name}`` in it is a DataFrame."""
        args: Any = self.args
        if self.frames and not frames:
            text = escaped(text)
        for name in self.frames:
            text = text.replace(name, f"{{{name}}}")
        frames = {**self.frames, **(frames or {})}
        run = plain(self.spark.sql)
        found: DataFrame = run(text, args=args, **frames) if frames else run(text, args=args)
        return found


def escaped(text: str) -> str:
    """Double the braces of a text, so that none is taken for a placeholder."""
    return text.replace("{", "{{").replace("}", "}}")


def context_of(spark: SparkSession) -> Context | None:
    """Return what statements of a session are run with; None where `register_catalog` was not called for it."""
    known = warehouses_of(spark)
    return Context(spark, known) if known.own_statements else None


def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of a name; none where Spark is to say what is wrong with it."""
    try:
        return tuple(split_name(name))
    except ValueError:
        return ()


def new_or_there(context: Context, name: str) -> TableName | None:
    """Return the Paimon table that a name means, whether it is there or not; None for one of Spark's."""
    parts = parts_of(name)
    return resolve(context.known, parts) if parts else None


def there(context: Context, name: str) -> TableName | None:
    """Return the Paimon table that a name means; None for one of Spark's.

    Raises:
        AnalysisException: only Paimon could have it, and it is not there.
    """
    found = new_or_there(context, name)
    if found is not None and found.exists():
        return found
    if found is not None and is_explicit(context.known, parts_of(name)):
        raise table_not_found(parts_of(name))
    return None
