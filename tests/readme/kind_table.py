"""Write the table of table kinds into docs/kinds.md: `python tests/readme/kind_table.py`. Each cell is tried.

Every kind of table is created, written twice, read, compacted, updated and deleted from by SQL statements; "yes" means
that the rows were right afterwards.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/kinds.md"
BEGIN = "<!-- kinds: made by tests/readme/kind_table.py -->\n"
END = "<!-- end of kinds -->\n"
HEAD = ("kind of table", "options", "written, read", "compacted", "`UPDATE`", "`DELETE`")
YES, NO, LATER, NEVER = "yes", "not yet", "rows are seen after `compact`", "refused, as in Java"
COMPACTED = "of compacted rows"

Row = tuple[int, int, str | None]
FIRST: tuple[Row, ...] = ((1, 10, "a"), (2, 20, "b"))
SECOND: tuple[Row, ...] = ((2, 5, None), (3, 30, "c"))
ALL = (*FIRST, *SECOND)
NEWEST = ((1, 10, "a"), (2, 5, None), (3, 30, "c"))
FILLED = ((1, 10, "a"), (2, 5, "b"), (3, 30, "c"))
SUMMED = ((1, 10, "a"), (2, 25, "b"), (3, 30, "c"))
OLDEST = ((1, 10, "a"), (2, 20, "b"), (3, 30, "c"))
KEY = {"primary-key": "k", "bucket": "2"}
SUMS = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
GROUP = {"merge-engine": "partial-update", "fields.v.sequence-group": "t"}


@dataclass(frozen=True)
class Kind:
    """One kind of table: how it is made, and which rows it has after both writes."""

    name: str
    options: dict[str, str]
    rows: Sequence[Row]
    partitioned: bool = False
    refused: tuple[str, ...] = field(default=())
    """Statements that Java refuses as well."""
    rewritten: bool = False
    """Whether a DELETE writes files anew, of rows that are not merged from several."""


def kinds() -> Iterator[Kind]:
    """All kinds, those without a primary key first."""
    yield Kind("append", {}, ALL)
    yield Kind("append, fixed buckets", {"bucket": "2", "bucket-key": "k"}, ALL)
    yield Kind("append, deletion vectors", {"deletion-vectors.enabled": "true"}, ALL)
    yield Kind("append, row tracking", {"row-tracking.enabled": "true"}, ALL)
    data_evolution = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    yield Kind("append, data evolution", data_evolution, ALL, refused=("DELETE",))
    yield Kind("append, data evolution, deletion vectors", {**data_evolution, "deletion-vectors.enabled": "true"}, ALL)
    yield Kind("keys, fixed buckets", KEY, NEWEST)
    yield Kind("keys, dynamic buckets", {**KEY, "bucket": "-1"}, NEWEST)
    yield Kind("keys across partitions", {**KEY, "bucket": "-1"}, NEWEST, partitioned=True)
    yield Kind("keys, postponed buckets", {**KEY, "bucket": "-2"}, NEWEST)
    yield Kind("keys, deletion vectors", {**KEY, "deletion-vectors.enabled": "true"}, NEWEST)
    for producer in ("input", "lookup", "full-compaction"):
        yield Kind(f"keys, changelog of `{producer}`", {**KEY, "changelog-producer": producer}, NEWEST)
    yield Kind("partial update", {**KEY, "merge-engine": "partial-update"}, FILLED, rewritten=True)
    removing = {"partial-update.remove-record-on-delete": "true"}
    yield Kind("partial update, removing", {**KEY, "merge-engine": "partial-update", **removing}, FILLED)
    yield Kind("partial update, sequence groups", {**KEY, **GROUP}, GROUPED, rewritten=True)
    yield Kind("aggregation", {**KEY, **SUMS}, SUMMED, refused=("UPDATE",), rewritten=True)
    removing = {"aggregation.remove-record-on-delete": "true"}
    yield Kind("aggregation, removing", {**KEY, **SUMS, **removing}, SUMMED, refused=("UPDATE",))
    yield Kind("first row", {**KEY, "merge-engine": "first-row"}, OLDEST, refused=("UPDATE",), rewritten=True)


GROUPED = ((1, 10, "a"), (2, 20, "b"), (3, 30, "c"))
"""The second row of key 2 has the smaller sequence."""


class Trial:
    """One kind of table in the catalog `c` of a session."""

    def __init__(self, spark: SparkSession, kind: Kind, number: int) -> None:
        self._spark, self._kind = spark, kind
        self._table = f"c.kinds.t{number}"
        self._expected = sorted(map(str, kind.rows))

    def cells(self) -> tuple[str, str, str, str]:
        """What became of writing and reading, compacting, updating and deleting."""
        if not self._created():
            return NO, NO, NO, NO
        written = self._written()
        compacted = YES if self._done(f"CALL c.sys.compact(table => '{self._table}')") else NO
        if compacted == YES:
            self._check()
        return written, compacted, self._changed("UPDATE"), self._changed("DELETE")

    def _created(self) -> bool:
        options = ", ".join(f"'{key}' = '{value}'" for key, value in self._kind.options.items())
        parts = "PARTITIONED BY (p)" if self._kind.partitioned else ""
        made = f"CREATE TABLE {self._table} (k INT, v INT, t STRING, p INT) {parts} TBLPROPERTIES ({options})"
        return self._done(made.replace(" TBLPROPERTIES ()", ""))

    def _written(self) -> str:
        for rows in (FIRST, SECOND):
            values = ", ".join(f"({k}, {v}, {'NULL' if t is None else repr(t)}, 1)" for k, v, t in rows)
            if not self._done(f"INSERT INTO {self._table} VALUES {values}"):
                return NO
        return YES if self._rows() == self._expected else LATER

    def _changed(self, statement: str) -> str:
        if statement == "UPDATE":
            done = self._done(f"UPDATE {self._table} SET t = 'new' WHERE k = 1")
            self._expected = [row.replace("'a'", "'new'") for row in self._expected] if done else self._expected
        else:
            if self._kind.rewritten:
                assert self._done(f"CALL c.sys.compact(table => '{self._table}')")
            done = self._done(f"DELETE FROM {self._table} WHERE k = 3")
            self._expected = [row for row in self._expected if not row.startswith("(3")] if done else self._expected
        if not done:
            return NEVER if statement in self._kind.refused else NO
        assert statement not in self._kind.refused, f"{self._kind.name}: Java refuses {statement}"
        if self._rows() == self._expected:
            return COMPACTED if statement == "DELETE" and self._kind.rewritten else YES
        assert self._done(f"CALL c.sys.compact(table => '{self._table}')")
        self._check()
        return LATER

    def _check(self) -> None:
        found = self._rows()
        assert found == self._expected, f"{self._kind.name}: {found}"

    def _rows(self) -> list[str]:
        rows = self._spark.sql(f"SELECT k, v, t FROM {self._table}").collect()
        return sorted(str(tuple(row)) for row in rows)

    def _done(self, statement: str) -> bool:
        """Whether a statement was carried out; otherwise it must be refused by name."""
        try:
            self._spark.sql(statement)
        except Exception as error:  # noqa: BLE001 - Spark wraps ours
            text = str(error)
            assert "not support" in text or "doesn't support" in text, f"{self._kind.name}: {statement}: {text}"
            return False
        return True


def table(spark: SparkSession, tried: Iterable[Kind]) -> str:
    """The table of some kinds, tried in a warehouse of its own."""
    import paimon_spark

    with tempfile.TemporaryDirectory() as warehouse:
        paimon_spark.register_catalog(spark, "c", warehouse=warehouse)
        spark.sql("CREATE DATABASE c.kinds")
        lines = [" | ".join(HEAD), "|".join("---" for _ in HEAD)]
        for number, kind in enumerate(tried):
            options = ", ".join(
                f"`{key}` = `{value}`"
                for key, value in kind.options.items()
                if "primary-key" not in kind.options or (key, value) not in KEY.items()
            )
            lines.append(" | ".join((kind.name, options, *Trial(spark, kind, number).cells())))
    return "".join(f"| {line} |\n" if "---" not in line else f"|{line}|\n" for line in lines)


def with_kinds(page: str, made: str) -> str:
    """The page with the table as it should be."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n" + made + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    PAGE.write_text(with_kinds(PAGE.read_text(encoding="utf-8"), table(session, kinds())), encoding="utf-8")
