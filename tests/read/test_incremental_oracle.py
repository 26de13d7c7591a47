"""Changes between two points of tables that Java writes on the spot: the same rows, kinds and refusals as Java's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_spark.errors import OptionError, PaimonError, SnapshotNotFoundError
from paimon_spark.read.row_views import find_view
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.sql_filter import parse_filter
from paimon_spark.table.table import load_table
from tests.support.golden import row_multiset
from tests.support.plans import plan_of

pytestmark = pytest.mark.oracle

COLUMNS = [("k", "INT NOT NULL"), ("a", "STRING"), ("b", "DOUBLE"), ("s", "INT")]
_names = itertools.count()


def ours(
    path: str, system: str | None = None, *, columns: list[str] | None = None, where: str | None = None, **options: str
) -> pa.Table:
    table = load_table(
        path, options={key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    )
    view = find_view(system)
    assert view is not None
    predicate = None if where is None else parse_filter(where, view.fields(table))
    plan = plan_of(table, view, columns=columns, predicate=predicate)
    batches = [b for split in plan.splits for b in plan.read(plan.table, split, plan.fields, plan.residual)]
    return pa.Table.from_batches(batches, to_arrow_schema(plan.fields))


def javas(oracle: Any, name: str, system: str | None = None, **options: str) -> pa.Table:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return oracle.read(f"{name}${system}" if system else name, options=named or None)


def path_of(oracle: Any, name: str) -> str:
    database, table = name.split(".")
    return f"{oracle.warehouse}/{database}.db/{table}"


def new_name() -> str:
    return f"inc.t{next(_names)}"


def assert_equal(oracle: Any, name: str, system: str | None = None, **options: str) -> int:
    got, want = ours(path_of(oracle, name), system, **options), javas(oracle, name, system, **options)
    assert got.schema.names == want.schema.names
    assert row_multiset(got) == row_multiset(want), (system, options)
    return got.num_rows


def changed_table(oracle: Any, *, options: dict[str, str], deletes: bool = True, compacts: bool = True) -> str:
    """A table with a history: inserts, updates, deletes, a compaction, an evolved schema, tags at some snapshots."""
    name = new_name()
    oracle.create(name, COLUMNS, pk=["k"], options={"bucket": "2", **options})
    oracle.write(name, [(i, f"a{i}", i / 2, 1) for i in range(20)])
    oracle.create_tag(name, "first")
    oracle.write(name, [(i, None if i % 4 == 0 else f"b{i}", float("nan"), i % 3) for i in range(0, 30, 2)])
    if compacts:
        oracle.compact(name)
    oracle.create_tag(name, "second")
    if deletes:
        gone = [(i, f"a{i}", i / 2, 9) for i in range(5, 9)]
        oracle.write(name, gone, kinds=["-D"] * len(gone))
    oracle.alter(name, ("add", "c", "STRING"), ("rename", "a", "aa"))
    oracle.write(name, [(i, f"c{i}", None, 2, "new") for i in range(3, 12, 3)])
    oracle.create_tag(name, "third")
    oracle.write(name, [(i, f"a{i}", i / 2, 1, None) for i in (1, 3, 17)])
    return name


ENGINES = {
    "deduplicate": {},
    "sequence field": {"sequence.field": "s"},
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "partial-update with groups": {
        "merge-engine": "partial-update", "fields.s.sequence-group": "b", "ignore-delete": "true"
    },
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "full-compaction": {"changelog-producer": "full-compaction"},
    "avro, write-only": {"file.format": "avro", "write-only": "true"},
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_changes_are_those_of_java(oracle: Any, engine: str) -> None:
    name = changed_table(oracle, options=ENGINES[engine])
    latest = max(oracle.snapshots(name))
    seen = 0
    for start, end in ((0, latest), (1, 3), (2, latest - 1), (latest - 1, latest), (2, 2)):
        between = f"{start},{end}"
        for mode in ("auto", "delta", "changelog"):
            for system in (None, "audit_log", "binlog"):
                seen += assert_equal(
                    oracle, name, system, incremental_between=between, incremental_between_scan_mode=mode
                )
    for system in ("audit_log", "binlog"):
        seen += assert_equal(oracle, name, system)
    assert seen > 100


@pytest.mark.parametrize("engine", [name for name in ENGINES if "partial" not in name])
def test_differences_are_those_of_java(oracle: Any, engine: str) -> None:
    name = changed_table(oracle, options=ENGINES[engine])
    latest = max(oracle.snapshots(name))
    diff = {"incremental_between_scan_mode": "diff"}
    seen = 0
    for start, end in itertools.combinations(range(1, latest + 1), 2):
        for system in (None, "audit_log"):
            seen += assert_equal(oracle, name, system, incremental_between=f"{start},{end}", **diff)
    for first, second in (("first", "second"), ("first", "third"), ("second", "third"), ("third", "third")):
        for system in (None, "audit_log"):
            seen += assert_equal(oracle, name, system, incremental_between=f"{first},{second}")
    assert seen > 100


def test_differences_of_partial_updates_are_whole_rows(oracle: Any) -> None:
    """Java leaves out the files that both states have, and with them what they hold of a row: we do not."""
    name = new_name()
    oracle.create(name, COLUMNS, pk=["k"], options={"bucket": "1", **ENGINES["partial-update"]})
    oracle.write(name, [(i, f"a{i}", i / 2, 1) for i in range(5)])
    oracle.compact(name)
    oracle.create_tag(name, "x")
    oracle.write(name, [(2, "new", None, None), (9, "other", None, None)])
    oracle.create_tag(name, "y")
    path = path_of(oracle, name)
    assert sorted(ours(path, incremental_between="x,y").to_pylist(), key=repr) == [
        {"k": 2, "a": "new", "b": 1.0, "s": 1},
        {"k": 9, "a": "other", "b": None, "s": None},
    ]
    halves = javas(oracle, name, incremental_between="x,y").to_pylist()
    assert {"k": 2, "a": "new", "b": None, "s": None} in halves


def test_rescaled_buckets_are_compared(oracle: Any) -> None:
    """Java refuses to compare states whose numbers of buckets differ; its table function takes the rows apart."""
    name = new_name()
    oracle.create(name, COLUMNS, pk=["k"], options={"bucket": "1"})
    rows = [(i, f"a{i}", i / 2, 1) for i in range(30)]
    oracle.write(name, rows)
    oracle.create_tag(name, "narrow")
    oracle.alter(name, ("set", "bucket", "3"))
    oracle.write(name, rows[5:], overwrite={})
    oracle.write(name, [(7, "new", None, None), (99, "more", None, None)])
    oracle.create_tag(name, "wide")
    with pytest.raises(Exception, match="bucket number of two snapshots are different"):
        javas(oracle, name, incremental_between="narrow,wide")
    got = ours(path_of(oracle, name), "audit_log", incremental_between="narrow,wide").to_pylist()
    kinds = sorted((row["k"], row["rowkind"]) for row in got)
    assert kinds == [*((k, "-D") for k in range(5)), (7, "+I"), (99, "+I")]


def test_append_tables(oracle: Any) -> None:
    name = new_name()
    oracle.create(name, [("k", "INT"), ("p", "INT")], partition=["p"], options={"bucket": "-1"})
    for number in range(4):
        oracle.write(name, [(number * 10 + i, i % 3) for i in range(6)])
        oracle.create_tag(name, f"t{number}")
    oracle.compact(name, options={"compaction.min.file-num": 2})
    oracle.create_tag(name, "compacted")
    seen = 0
    for between in ("0,4", "1,3", "t0,t2", "t1,t3", "t1,compacted"):
        for system in (None, "audit_log"):
            seen += assert_equal(oracle, name, system, incremental_between=between)
    seen += assert_equal(oracle, name, "binlog", incremental_between="1,3")
    seen += assert_equal(oracle, name, "binlog")
    assert seen > 50


def test_automatic_tags(oracle: Any) -> None:
    name = new_name()
    oracle.create(name, COLUMNS, pk=["k"], options={"bucket": "1"})
    for number, tag in enumerate(("2024-12-01", "2024-12-02", "other", "2024-12-04")):
        oracle.write(name, [(number, "x", None, 1), (7, str(number), None, 1)])
        oracle.create_tag(name, tag)
    for tag, count in (("2024-12-01", 0), ("2024-12-02", 2), ("2024-12-03", 0), ("2024-12-04", 3)):
        assert assert_equal(oracle, name, incremental_to_auto_tag=tag) == count
    with pytest.raises(Exception, match="not an auto-created tag"):
        javas(oracle, name, incremental_to_auto_tag="other")
    with pytest.raises(OptionError, match="not an auto-created tag"):
        ours(path_of(oracle, name), incremental_to_auto_tag="other")


def test_times(oracle: Any) -> None:
    name = changed_table(oracle, options={})
    path = path_of(oracle, name)
    millis = [oracle.snapshot(name, number)["timeMillis"] for number in oracle.snapshots(name)]
    ends = [millis[0] - 5000, millis[0] - 1, millis[0], millis[1], millis[-1], millis[-1] + 1, millis[-1] + 5000]
    for start, end in itertools.combinations(ends, 2):
        for mode in ("auto", "diff"):
            both = {"incremental_between_timestamp": f"{start},{end}", "incremental_between_scan_mode": mode}
            if mode == "diff" and start < millis[0] <= end:
                # 1.4.2 gives nothing where there was no state before; 2.1, and so do we, all rows of the later state
                (state,) = [
                    n for n in oracle.snapshots(name) if millis[n - 1] <= end and (n == len(millis) or end < millis[n])
                ]
                assert ours(path, **both).num_rows == javas(oracle, name, scan__snapshot_id=str(state)).num_rows
                continue
            assert_equal(oracle, name, "audit_log", **both)
    for text in ("5,4", "5", "x,y", "1,2,3"):
        with pytest.raises(Exception, match="Exception") as theirs:
            javas(oracle, name, incremental_between_timestamp=text)
        with pytest.raises(OptionError) as raised:
            ours(path, incremental_between_timestamp=text)
        words = (
            "should be >= starting timestamp" if text == "5,4" else "must specific start(exclusive) and end timestamp"
        )
        assert words in str(theirs.value)
        assert with_better_grammar(words) in str(raised.value)


def with_better_grammar(words: str) -> str:
    return words.replace("must specific", "must specify")


REFUSED: dict[str, tuple[dict[str, str], type[PaimonError], str]] = {
    "later than the latest": ({"incremental_between": "2,99"}, SnapshotNotFoundError, "is out of available snapshotId"),
    "backwards": ({"incremental_between": "5,4"}, OptionError, "Ending snapshotId"),
    "a tag and an id": ({"incremental_between": "first,3"}, SnapshotNotFoundError, "Didn't find two tags for start"),
    "no such tag": ({"incremental_between": "first,zzz"}, SnapshotNotFoundError, "Didn't find two tags for start"),
    "tags backwards": ({"incremental_between": "second,first"}, OptionError, "should be >= tag start"),
    "one point": ({"incremental_between": "1"}, OptionError, "must specific start(exclusive) and end snapshot"),
    "two kinds of points": (
        {"incremental_between": "1,2", "incremental_between_timestamp": "1,2"}, OptionError, "must set only one key"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_java_refuses_we_refuse_with_its_words(oracle: Any, case: str) -> None:
    options, error, words = REFUSED[case]
    name = "inc.refused"
    if not Path(path_of(oracle, name)).exists():
        oracle.create(name, COLUMNS, pk=["k"], options={"bucket": "1"})
        for number in range(5):
            oracle.write(name, [(number, "x", None, 1)])
        oracle.create_tag(name, "first", 1)
        oracle.create_tag(name, "second", 2)
    with pytest.raises(Exception, match="Exception") as theirs:
        javas(oracle, name, **options)
    assert words in str(theirs.value)
    with pytest.raises(error) as raised:
        ours(path_of(oracle, name), **options)
    assert with_better_grammar(words) in str(raised.value)


def filtered(rows: pa.Table, keep: Callable[[dict[str, Any]], bool], columns: list[str]) -> list[str]:
    return sorted(repr([row[name] for name in columns]) for row in rows.to_pylist() if keep(row))


def test_filters_and_columns(oracle: Any) -> None:
    name = changed_table(oracle, options={"changelog-producer": "lookup"})
    path = path_of(oracle, name)
    reads: list[dict[str, str]] = [
        {"incremental_between": f"1,{max(oracle.snapshots(name))}"},
        {"incremental_between": "first,third"},
        {},
    ]
    cases: list[tuple[str, Callable[[dict[str, Any]], bool]]] = [
        ("k = 6", lambda row: row["k"] == 6),
        ("aa = 'b6' OR k > 15", lambda row: row["aa"] == "b6" or row["k"] > 15),
        ("rowkind = '-D' AND k < 8", lambda row: row["rowkind"] == "-D" and row["k"] < 8),
        ("c IS NULL AND rowkind <> '+I'", lambda row: row["c"] is None and row["rowkind"] != "+I"),
    ]
    for options in reads:
        everything = javas(oracle, name, "audit_log", **options)
        for where, keep in cases:
            got = ours(path, "audit_log", columns=["c", "k", "rowkind"], where=where, **options)
            wanted = filtered(everything, keep, ["c", "k", "rowkind"])
            assert filtered(got, lambda _: True, ["c", "k", "rowkind"]) == wanted, (options, where)
        plain = javas(oracle, name, **options)
        got = ours(path, columns=["aa"], where="k > 3 AND k < 9", **options)
        assert filtered(got, lambda _: True, ["aa"]) == filtered(plain, lambda row: 3 < row["k"] < 9, ["aa"])


def test_values_that_are_not_equal_to_themselves(oracle: Any) -> None:
    """NaN, -0.0, nulls and nested values that did not change are no difference."""
    name = new_name()
    nested = [("k", "INT NOT NULL"), ("f", "FLOAT"), ("m", "MAP<STRING, INT>"), ("r", "ROW<x INT, y ARRAY<DOUBLE>>")]
    oracle.create(name, nested, pk=["k"], options={"bucket": "1"})
    rows: list[tuple[Any, ...]] = [
        (1, float("nan"), [("a", 1)], {"x": 1, "y": [1.0, None]}),
        (2, 0.0, None, None),
        (3, None, [("a", None)], {"x": None, "y": []}),
    ]
    oracle.write(name, rows)
    oracle.create_tag(name, "x")
    changed = [rows[0], (2, -0.0, None, None), (3, None, [("a", None)], {"x": None, "y": None})]
    oracle.write(name, changed)
    oracle.compact(name)  # a file that both states have would not be compared
    oracle.create_tag(name, "y")
    assert assert_equal(oracle, name, "audit_log", incremental_between="x,y") == 2


def test_sequence_numbers(oracle: Any) -> None:
    name = changed_table(oracle, options={"changelog-producer": "lookup", "table-read.sequence-number.enabled": "true"})
    latest = max(oracle.snapshots(name))
    assert assert_equal(oracle, name, "audit_log", incremental_between=f"1,{latest}") > 20
    for system in ("audit_log", "binlog"):
        assert assert_equal(oracle, name, system) > 20
    with pytest.raises(Exception, match="Row arity: 6, but serializer arity: 5"):  # a bug of Java's: ours reads
        javas(oracle, name, "binlog", incremental_between=f"1,{latest}")
    assert ours(path_of(oracle, name), "binlog", incremental_between=f"1,{latest}").num_rows > 20
    assert "_SEQUENCE_NUMBER" in ours(path_of(oracle, name), "audit_log").schema.names
    assert "_SEQUENCE_NUMBER" not in ours(path_of(oracle, name)).schema.names


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
@pytest.mark.parametrize("bucket", ["1", "-1"])
def test_the_difference_of_states_of_a_partitioned_table(oracle: Any, engine: str, bucket: str) -> None:
    """Partitions that come, change, are emptied and stay as they are; also compacted between the two states."""
    name = new_name()
    columns = [("p", "STRING NOT NULL"), ("k", "INT NOT NULL"), ("a", "INT"), ("b", "INT")]
    options = {"bucket": bucket, "merge-engine": engine}
    oracle.create(name, columns, pk=["p", "k"], partition=["p"], options=options)
    oracle.write(name, [(p, k, k, 0) for p in ("same", "changed", "gone", "rewritten") for k in range(4)])
    oracle.write(name, [("changed", 1, 11, None), ("changed", 2, None, 22), ("new", 7, 7, 7)])
    first = oracle.latest(name)
    oracle.write(name, [("rewritten", 3, 3, 3)], overwrite={"p": "rewritten"})
    oracle.write(name, [("gone", 1, None, None)], overwrite={"p": "gone"})
    oracle.compact(name)
    oracle.write(name, [("changed", 9, 9, 9), ("new", 7, None, 8), ("late", 1, 1, 1)])
    last = oracle.latest(name)
    path, diff = path_of(oracle, name), {"incremental_between_scan_mode": "diff"}

    def state(snapshot: int) -> dict[tuple[str, int], dict[str, Any]]:
        return {(row["p"], row["k"]): row for row in ours(path, scan__snapshot_id=str(snapshot)).to_pylist()}

    for start, end in ((1, first), (first, last), (1, last), (last - 1, last)):
        between = {"incremental_between": f"{start},{end}", **diff}
        before, after = state(start), state(end)
        changed = {key: row for key, row in after.items() if before.get(key) != row}
        assert {(row["p"], row["k"]): row for row in ours(path, **between).to_pylist()} == changed != {}
        kinds = {
            (row.pop("rowkind"), row["p"], row["k"]): row for row in ours(path, "audit_log", **between).to_pylist()
        }
        gone = {("-D", *key): row for key, row in before.items() if key not in after}
        assert kinds == {("+I", *key): row for key, row in changed.items()} | gone
        if engine == "deduplicate" and not start <= first + 1 < end:  # Java 1.4 misses what overwrites changed
            assert_equal(oracle, name, None, **between)
            assert_equal(oracle, name, "audit_log", **between)
    one = ours(path, None, where="p = 'changed' AND k > 1", incremental_between=f"1,{last}", **diff).to_pylist()
    assert sorted(row["k"] for row in one) == [2, 9]
