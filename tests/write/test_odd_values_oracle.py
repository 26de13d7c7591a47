"""Random tables of every type, engine and format: Java and we write, compact and change the schema by turns.

Values are odd: NULL, NaN, -0.0, empty texts and bytes, the largest decimals, times with nanoseconds; keys have every
type that a key can have, partitions the texts that paths escape. After each step Java and we read the same rows, those
that were just written are among them, and the files are as their metadata says.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.overwrite import OverwriteSpec
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.compact.due import compact_after_write
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.predicate import Leaf, Predicate
from paimon_spark.table.table import FileStoreTable, load_table
from paimon_spark.write.plan import OverwriteMode, new_user, plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.golden import row_multiset
from tests.support.levels import check_files
from tests.support.plans import plan_of
from tests.support.seeds import chance

pytestmark = pytest.mark.oracle

FORMATS = ("parquet", "orc", "avro")
TEXTS = ["", "a", "Zoë", "seven b", "longer than seven bytes", "\u6f22\u5b57 \U0001f600", "a'b\"c\\", " "]
SECONDS = [0, 1, -3, 1_700_000_000, -2_208_988_800, 4_102_444_799]
"""Those before 1970 have no fractions, which ORC files of ours cannot keep."""
FLOATS = [-0.0, float("nan"), float("inf"), -float("inf"), 1.5, 3.0e38]
"""Not 0.0 as well: where all values of an ORC batch compare equal, Java's reader repeats the first."""
WIDE = Context(prec=38)
NEARLY = Decimal(10**38 - 1).scaleb(-10, WIDE)


def times(digits: int) -> list[int]:
    return [second * 10**digits + part for second in SECONDS for part in (0, 10**digits - 1)[: 2 if second >= 0 else 1]]


VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [0, 127, -128],
    "SMALLINT": [0, 32767, -32768],
    "INT": [0, 1, -1, 2**31 - 1, -(2**31)],
    "BIGINT": [0, 1, -1, 2**63 - 1, -(2**63)],
    "FLOAT": FLOATS,
    "DOUBLE": [*FLOATS, 1e308, 5e-324],
    "DECIMAL(5, 2)": [Decimal("0.00"), Decimal("999.99"), Decimal("-999.99")],
    "DECIMAL(18, 3)": [Decimal("0.000"), Decimal("999999999999999.999"), Decimal("-0.001")],
    "DECIMAL(38, 10)": [Decimal("0.0000000000"), Decimal(10**37).scaleb(-10, WIDE), NEARLY],
    "STRING": TEXTS,
    "CHAR(3)": ["abc", "xyz", "\u6f22ab"],
    "VARCHAR(9)": ["", "abc", "ab ", "123456789"],
    "BYTES": [b"", b"\x00", b"\xff" * 9, b"abc"],
    "BINARY(3)": [b"\x00\x01\x02", b"\xff\xff\xff"],
    "DATE": [0, 1, -1, 19_000, -25_567, 47_482],
    "TIME(3)": [0, 1, 86_399_999, 43_200_000],
    "TIMESTAMP(0)": times(0),
    "TIMESTAMP(3)": times(3),
    "TIMESTAMP(6)": times(6),
    "TIMESTAMP(9)": times(9),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": times(3),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": times(6),
    "TIMESTAMP(9) WITH LOCAL TIME ZONE": times(9),
    "ARRAY<INT>": [[], [1, None, 3], [None]],
    "ARRAY<STRING>": [[], ["", None, "longer than seven bytes"]],
    "MAP<STRING, BIGINT>": [[], [("", None), ("b", 2)], [("longer than seven bytes", -1)]],
    "ROW<a INT, b STRING, c DECIMAL(20, 2)>": [
        {"a": None, "b": None, "c": None},
        {"a": 1, "b": "", "c": Decimal("1.50")},
    ],
    "ARRAY<ROW<x DOUBLE, y ARRAY<STRING>>>": [[], [{"x": float("nan"), "y": []}, None, {"x": None, "y": [None, "q"]}]],
    "MULTISET<STRING>": [[], [("a", 2), ("", 1)]],
}
COMPLEX = ("ARRAY", "MAP", "ROW", "MULTISET")
PARTITIONS = ["a", "a/b", "a=b", "50%", " ", "\u6f22", "x:y", "*"]
ENGINES: dict[str, dict[str, str]] = {
    "append": {},
    "deduplicate": {},
    "partial_update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.default-aggregate-function": "last_value"},
    "first_row": {"merge-engine": "first-row"},
}


def fits(sql: str, file_format: str) -> bool:
    if file_format == "orc":
        return not sql.startswith("BINARY")
    return file_format == "parquet" or "(9)" not in sql


def array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, kind)


class Odd:
    """One table and its random steps."""

    def __init__(self, oracle: Any, rng: random.Random, engine: str, file_format: str) -> None:
        self.oracle, self.rng, self.engine = oracle, rng, engine
        self.looks_up = engine == "first_row" or (engine != "append" and rng.random() < 0.5)
        self.columns = self._columns(file_format)
        self.keys = [name for name in self.columns if name.startswith("k")]
        self.partitioned = rng.random() < 0.4
        if self.partitioned:
            self.columns["p"] = "STRING"
        keys = [*self.keys, *(["p"] if self.partitioned and self.keys else [])]
        self.name = oracle.fresh_name("odd")
        declared = [(name, f"{sql} NOT NULL" if name in keys else sql) for name, sql in self.columns.items()]
        options = {"file.format": file_format, **ENGINES[engine], **self._options()}
        oracle.create(self.name, declared, pk=keys, partition=["p"] if self.partitioned else [], options=options)
        self.path = oracle.location(self.name)
        # Java's lookups make local files named by the partition, without escaping it
        self.partitions = [p for p in PARTITIONS if not (self.looks_up and "/" in p)] + ([] if keys else [None, ""])
        self.done = [f"{engine} {file_format} {self.columns} {options}"]

    def _columns(self, file_format: str) -> dict[str, str]:
        kinds = [sql for sql in VALUES if fits(sql, file_format)]
        keys = [sql for sql in kinds if not sql.startswith((*COMPLEX, "FLOAT", "DOUBLE"))]
        if self.looks_up:  # Java's lookups cannot compare bytes
            keys = [sql for sql in keys if sql not in ("BYTES", "BINARY(3)")]
        count = 0 if self.engine == "append" else self.rng.randint(1, 2)
        chosen = {f"k{i}": sql for i, sql in enumerate(self.rng.sample(keys, count))}
        return chosen | {f"v{i}": sql for i, sql in enumerate(self.rng.sample(kinds, 6))}

    def _options(self) -> dict[str, str]:
        rng = self.rng
        if not self.keys:
            free = [{"bucket": "-1"}, {"bucket": "-1", "row-tracking.enabled": "true"}]
            return rng.choice([*free, {"bucket": "2", "bucket-key": "v0"}] if self._hashed() else free)
        options = {"bucket": rng.choice(["1", "2", "-1"]), "num-sorted-run.compaction-trigger": "3"}
        if not self.looks_up:
            return options | {"changelog-producer": rng.choice(["none", "input", "full-compaction"])}
        options["changelog-producer"] = rng.choice(["none", "lookup"])
        if self.engine != "first_row":
            options["deletion-vectors.enabled"] = rng.choice(["true", "false"])
        return options

    def _hashed(self) -> bool:
        return not self.columns["v0"].startswith(COMPLEX)

    def rows(self, schema: pa.Schema) -> tuple[pa.Table, list[int]]:
        """Rows of distinct keys, and their kinds."""
        rng, made, seen = self.rng, [], set()
        for _ in range(rng.choice([1, 3, 12])):
            row = {}
            for name, sql in self.columns.items():
                if name == "p":
                    row[name] = rng.choice(self.partitions)
                else:
                    nothing = name not in self.keys and rng.random() < 0.25
                    row[name] = None if nothing else rng.choice(VALUES[sql])
            key = repr([row[name] for name in self.keys] + [row.get("p")]) if self.keys else len(made)
            if key not in seen:
                seen.add(key)
                made.append(row)
        arrays = [array([row[field.name] for row in made], field.type) for field in schema]
        deletes = self.engine == "deduplicate"
        return pa.table(arrays, schema=pa.schema([pa.field(f.name, f.type) for f in schema])), [
            rng.choice([0, 0, 0, 2, 3] if deletes else [0]) for _ in made
        ]

    def table(self) -> FileStoreTable:
        return load_table(self.path)

    def write(self) -> None:
        java = self.rng.random() < 0.5
        data, kinds = self.rows(to_arrow_schema(self.table().schema.fields))
        self.done.append(f"{'Java' if java else 'we'} write {data.num_rows}")
        numbers = pa.array(kinds, pa.int8())
        if java:
            self.oracle.write(self.name, data.append_column("_kind", numbers) if self.keys else data)
        else:
            ours_write(self.table(), data.append_column("_VALUE_KIND", numbers) if self.keys else data)
        if self.engine in ("append", "deduplicate") and not self._hides():
            kept = pa.array([kind != 3 for kind in kinds])
            missing = row_multiset(data.filter(kept)) - row_multiset(self.read())
            assert not missing, (self.done, missing)

    def overwrite(self) -> None:
        """Replace all rows, now and then with none."""
        java = self.rng.random() < 0.5
        data, _ = self.rows(to_arrow_schema(self.table().schema.fields))
        data = data.slice(0, self.rng.choice([0, len(data)]))
        self.done.append(f"{'Java' if java else 'we'} overwrite with {data.num_rows}")
        if java:
            self.oracle.write(self.name, data, overwrite={}, options={"dynamic-partition-overwrite": "false"})
        else:
            ours_write(self.table(), data, overwrite=True)
        assert self._hides() or row_multiset(self.read()) == row_multiset(data), self.done

    def _hides(self) -> bool:
        """Whether what was written is not to be seen before a compaction."""
        options = self.table().options
        return options.batch_scan_skips_level_0 and bool(options.value("write-only"))

    def compact(self) -> None:
        java, full = self.rng.random() < 0.5, self.rng.random() < 0.5
        if not self.keys and not self.read().num_rows:
            return  # Java's coordinator has nothing to plan
        self.done.append(f"{'Java' if java else 'we'} compact {'full' if full else ''}")
        if java:
            self.oracle.compact(self.name, full=full)
        else:
            compact(self.table(), full=full)

    def change(self) -> None:
        """Change the schema or an option, by Java."""
        values = [name for name in self.columns if name.startswith("v") and name != "v0"]
        some, number = self.rng.choice(values), len(self.done)
        changes: dict[str, Callable[[], tuple[str, ...]]] = {
            "add": lambda: ("add", f"v{100 + number}", "DECIMAL(18, 3)"),
            "rename": lambda: ("rename", some, f"v{100 + number}"),
            "drop": lambda: ("drop", some),
            "format": lambda: ("set", "file.format", self.rng.choice([f for f in FORMATS if self._fit(f)])),
            "statistics": lambda: ("set", "metadata.stats-mode", self.rng.choice(["none", "full", "counts"])),
            "write-only": lambda: ("set", "write-only", self.rng.choice(["true", "false"])),
            "compression": lambda: ("set", "file.compression", self.rng.choice(["zstd", "snappy"])),
        }
        if self.looks_up:
            changes["changelog"] = lambda: ("set", "changelog-producer", self.rng.choice(["none", "lookup"]))
        if not self.columns["v0"].startswith((*COMPLEX, "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN")):
            changes["index"] = lambda: ("set", "file-index.bloom-filter.columns", "v0")
        widened = {"INT": "BIGINT", "TINYINT": "INT", "FLOAT": "DOUBLE", "SMALLINT": "DECIMAL(18, 3)"}
        if self.columns[some] in widened:
            changes["type"] = lambda: ("type", some, widened[self.columns[some]])
        change = self.rng.choice(list(changes.values()))()
        self.done.append(str(change))
        self.oracle.alter(self.name, change)
        if change[0] == "add":
            self.columns[change[1]] = change[2]
        elif change[0] == "type":
            self.columns[some] = change[2]
        elif change[0] == "drop":
            del self.columns[some]
        elif change[0] == "rename":
            self.columns = {change[2] if name == some else name: sql for name, sql in self.columns.items()}

    def _fit(self, file_format: str) -> bool:
        return all(fits(sql, file_format) for sql in self.columns.values())

    def read(self, predicate: Predicate | None = None) -> pa.Table:
        plan = plan_of(self.table(), predicate=predicate)
        batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
        return pa.Table.from_batches(batches, to_arrow_schema(plan.fields))

    def check(self) -> None:
        mine, java = self.read(), self.oracle.read(self.name)
        found, expected = row_multiset(mine), row_multiset(java.select(mine.column_names))
        assert found == expected, (self.done, found - expected, expected - found)
        if self.table().snapshots.latest() is not None:
            check_files(self.path)
            self._check_filters(mine)
        if self.keys:
            names = [*self.keys, *(["p"] if self.partitioned else [])]
            keys = Counter(map(repr, mine.select(names).to_pylist()))
            assert all(number == 1 for number in keys.values()), self.done

    def _check_filters(self, rows: pa.Table) -> None:
        """A filter leaves out files and pages by what both wrote into them, but no row."""
        for name in self.rng.sample(list(self.columns), 2):
            column = rows.column(name)
            if not rows.num_rows or pa.types.is_nested(column.type) or pa.types.is_floating(column.type):
                continue
            at = self.rng.randrange(rows.num_rows)
            if column[at].as_py() is None:
                predicate, kept = Leaf("is_null", name), pc.is_null(column)
            elif pa.types.is_timestamp(column.type) and column.type.unit == "ns":
                predicate, kept = Leaf("is_not_null", name), pc.is_valid(column)
            else:
                operator, compared = self.rng.choice([("eq", pc.equal), ("ge", pc.greater_equal), ("lt", pc.less)])
                predicate, kept = Leaf(operator, name, (column[at].as_py(),)), compared(column, column[at])
            assert row_multiset(self.read(predicate)) == row_multiset(rows.filter(kept)), (self.done, predicate)


def ours_write(table: FileStoreTable, data: pa.Table, *, overwrite: bool = False) -> None:
    mode, spec = (OverwriteMode.STATIC, OverwriteSpec.static()) if overwrite else (None, None)
    plan, user = plan_write(table, data_schema=data.schema, overwrite=mode), new_user(table.options)
    messages = [write_batches(plan, data.to_batches(), 0)]
    commit(table, messages, commit_user=user, planned_on=plan.snapshot, overwrite=spec)
    compact_after_write(table, messages, commit_user=user, backlog=plan.backlog)


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("engine", ENGINES)
def test_tables_of_odd_values(oracle: Any, engine: str, file_format: str) -> None:
    rng = chance("odd values", engine, file_format)
    odd = Odd(oracle, rng, engine, file_format)
    odd.write()
    for _ in range(6):
        rng.choice([odd.write, odd.write, odd.write, odd.compact, odd.change, odd.change, odd.overwrite])()
        odd.check()
