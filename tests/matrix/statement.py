"""One statement that a user types, what it must give, and the session that tries it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKS = "works"
NOT_IN_SPARK = "not in Spark"

GIVEN = {
    "": (),
    "empty": ("CREATE TABLE {n} (k INT, v STRING)",),
    "append": ("CREATE TABLE {n} (k INT, v STRING)", "INSERT INTO {n} VALUES (1, 'a'), (2, 'b')"),
    "days": (
        "CREATE TABLE {n} (k INT, dt STRING) PARTITIONED BY (dt)",
        "INSERT INTO {n} VALUES (1, 'x'), (2, 'y')",
    ),
    "keyed": (
        "CREATE TABLE {n} (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='1')",
        "INSERT INTO {n} VALUES (1, 'a'), (2, 'b')",
    ),
    "history": (
        "CREATE TABLE {n} (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='1')",
        "INSERT INTO {n} VALUES (1, 'a'), (2, 'b')",
        "CALL sys.create_tag(table => 'db.{n}', tag => 'first')",
        "INSERT INTO {n} VALUES (2, 'B')",
    ),
}
"""What a statement finds: its table `{n}`, made by these."""


@dataclass(frozen=True)
class Statement:
    """A kind of statement, tried once."""

    group: str
    shown: str
    """As the table in docs/statements.md shows it; unique."""
    run: str | Callable[[Session, str], Any]
    """SQL, with `{n}` for the table; or a function of the session and the table's name in its catalog."""
    rows: Any = None
    """What `run`, or `then`, must give; None: it only must not fail."""
    then: str | Callable[[Session, str], Any] | None = None
    """Asked afterwards, when what `run` gives says nothing."""
    given: str = ""
    shared: bool = False
    """Whether one table of that kind does for all such statements, as they change nothing."""
    since: str = "4.0"
    """The first Spark that has it."""
    short: bool = False
    """Whether CI tries it on every version."""


class Session:
    """Tries statements on one Spark session, in a catalog `m` with a warehouse of its own."""

    def __init__(self, spark: SparkSession, warehouse: str) -> None:
        import paimon_spark

        self.spark = spark
        self.warehouse = warehouse
        self.version = ".".join(spark.version.split(".")[:2])
        paimon_spark.register(spark)
        paimon_spark.register_catalog(spark, "m", warehouse=warehouse)
        spark.sql("CREATE DATABASE m.db")
        spark.sql("USE m.db")
        self._numbers = itertools.count()
        self._shared: dict[str, str] = {}

    def path(self, name: str) -> str:
        """The directory of a table."""
        return f"{self.warehouse}/db.db/{name}"

    def sql(self, text: str, name: str) -> list[tuple[Any, ...]]:
        """The rows of an SQL text about a table."""
        return [
            tuple(row) for row in self.spark.sql(text.replace("{n}", name).replace("{path}", self.path(name))).collect()
        ]

    def new_table(self, given: str) -> str:
        """The name of a table of a kind of `GIVEN`, made now."""
        name = f"t{next(self._numbers)}"
        for text in GIVEN[given]:
            self.sql(text, name)
        return name

    def outcome(self, statement: Statement) -> str:
        """`WORKS`, `NOT_IN_SPARK`, or what went wrong."""
        try:
            found = self._try(statement)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
            if tuple(map(int, self.version.split("."))) < tuple(map(int, statement.since.split("."))):
                return NOT_IN_SPARK
            return _reason(error)
        if statement.rows is None or found == _sorted(statement.rows):
            return WORKS
        return f"gives {found} instead of {_sorted(statement.rows)}"

    def _try(self, statement: Statement) -> Any:
        if statement.shared:
            if statement.given not in self._shared:
                self._shared[statement.given] = self.new_table(statement.given)
            name = self._shared[statement.given]
        else:
            name = self.new_table(statement.given)
        found = None
        for step in (statement.run, statement.then):
            if step is not None:
                found = self.sql(step, name) if isinstance(step, str) else step(self, name)
        return _sorted(found)


def _sorted(rows: Any) -> Any:
    """Rows in an order that does not depend on tasks; what is no list, as it is."""
    return (
        sorted((tuple(row) if isinstance(row, list | tuple) else row for row in rows), key=repr)
        if isinstance(rows, list)
        else rows
    )


def _reason(error: Exception) -> str:
    condition = error.getCondition() if hasattr(error, "getCondition") else None
    text = str(error).strip().splitlines() or [type(error).__name__]
    return str(condition or text[0][:160])
