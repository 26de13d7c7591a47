"""The published benchmarks, as steps that every peer takes: Delta's merge benchmark, LHBench, TPC-DS queries.

After `MergeTestCases` of Delta Lake's benchmarks, and LHBench (Jain et al., CIDR 2023). Data are ours (`data.py`). The
sources of merges are Parquet files for every peer, since their format is not what is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.published import data
from benchmarks.published.peers import Merge, Peer
from benchmarks.published.queries import QUERIES

REFRESHES = 10
_FILES = 20
_RETURN_KEYS = ("wr_order_number", "wr_item_sk")
_SALE_KEYS = ("ss_ticket_number", "ss_item_sk")
_UPSERT = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
_FILE_COUNTS = (1_000, 10_000, 50_000, 100_000, 200_000)
_ROWS_OF_A_FILE = 50
_UPDATE_SHARES = (0.0001, 0.001, 0.01, 0.1)
"""LHBench's micro-merge: percents of the table's rows that the source has, half of them new."""


@dataclass(frozen=True)
class Step:
    """Something that is measured.

    Attributes:
        name: of the row.
        run: what is timed, with what ``prepare`` returned.
        prepare: what comes before each run.
        answer: what each peer must have found, by what ``run`` returned.
        finish: what comes after each run.
        once: it changes tables that later steps need, so it runs once, without a warm-up.
    """

    name: str
    run: Callable[[str], str]
    prepare: Callable[[], str] = str
    answer: Callable[[str], str] = str
    finish: Callable[[str], None] = lambda _: None
    once: bool = False


def _view(peer: Peer, name: str, query: str) -> None:
    path = peer.folder / "sources" / name
    peer.spark.sql(query).write.mode("overwrite").parquet(str(path))
    peer.spark.read.parquet(str(path)).createOrReplaceTempView(name)


def _summary(peer: Peer, columns: str) -> Callable[[str], str]:
    def answer(table: str) -> str:
        return str(peer.spark.sql(f"SELECT {columns} FROM {table}").collect())

    return answer


def merges(peer: Peer, scale: float) -> Iterator[Step]:
    """Delta's 16 merges into `web_returns`, each into a fresh copy."""
    rows = int(data.WEB_RETURNS_ROWS * scale)
    peer.create("web_returns", data.web_returns(data.ids(0, rows, _FILES)), _RETURN_KEYS)
    answer = _summary(peer, "count(*), sum(wr_order_number), sum(wr_fee)")

    def step(name: str, files: float, matched: float, new: float, clauses: str) -> Step:
        found = data.ids(0, max(int(rows * files), 1))
        old = f"(SELECT id FROM {found} WHERE pmod(xxhash64(id, 'old'), 10000) < {int(matched * 10000)})"
        more = f"(SELECT id FROM {found} WHERE pmod(xxhash64(id, 'new'), 10000) < {int(new * 10000)})"
        fresh = data.web_returns(more, first_new=rows, salt="new")
        _view(peer, "source", f"{data.web_returns(old, salt='upd')} UNION ALL {fresh}")
        kind = "delete" if "DELETE" in clauses else "update" if "UPDATE" in clauses else "keep"
        merge = Merge("source", _RETURN_KEYS, clauses, inserts="INSERT" in clauses, matched=kind)
        return Step(
            name, lambda copy: peer.merge(copy, merge), lambda: peer.copy("web_returns"), answer, finish=peer.forget
        )

    twice = "WHEN NOT MATCHED AND s.wr_item_sk % 2 = 0 THEN INSERT * WHEN NOT MATCHED THEN INSERT *"
    for new in (0.05, 0.5, 1.0):
        yield step(f"insert only, {new:.0%} new", 0.05, 0, new, "WHEN NOT MATCHED THEN INSERT *")
        yield step(f"insert only by two clauses, {new:.0%} new", 0.05, 0, new, twice)
    yield step("delete only, 5% matched", 0.05, 0.05, 0, "WHEN MATCHED THEN DELETE")
    shares = [(0.05, old, 0.1) for old in (0.0, 0.01, 0.1)] + [(0.05, old, 0.001) for old in (0.5, 0.99, 1.0)]
    for files, old, new in [*shares, (0.05, 0.1, 0.0), (0.5, 0.01, 0.001), (1.0, 0.01, 0.001)]:
        name = f"upsert, {files:.0%} of files, {old:.0%} matched, {new:.1%} new"
        yield step(name, files, old, new, _UPSERT)


def _query(peer: Peer, name: str, text: str) -> Step:
    def run(_: str) -> str:
        return str(peer.spark.sql(text).collect())

    return Step(name, run)


def refresh(peer: Peer, scale: float) -> Iterator[Step]:
    """LHBench's refresh: TPC-DS queries, ten merges of 3 % into `store_sales`, the queries again."""
    rows = int(data.STORE_SALES_ROWS * scale)
    for name, query in data.dimensions().items():
        peer.create(name, query)

    def load(_: str) -> str:
        peer.create("store_sales", data.store_sales(data.ids(0, rows)), _SALE_KEYS)
        return ""

    yield Step("load of store_sales", load, once=True)
    for name, text in QUERIES.items():
        yield _query(peer, f"{name}, loaded", text)
    part = int(rows * 0.015)

    def merge(number: int) -> Step:
        old = data.store_sales(data.ids(number * 2 * part, number * 2 * part + part), f"u{number}")
        new = data.store_sales(data.ids(rows + number * part, rows + (number + 1) * part))
        _view(peer, "refresh", f"{old} UNION ALL {new}")
        change = Merge("refresh", _SALE_KEYS, _UPSERT, inserts=True, matched="update")
        return Step(f"refresh {number + 1}", lambda _: peer.merge("store_sales", change), once=True)

    if peer.name == "Parquet":  # which has no merges
        return
    for number in range(REFRESHES):
        yield merge(number)
    for name, text in QUERIES.items():
        yield _query(peer, f"{name}, refreshed", text)


def micro(peer: Peer, scale: float) -> Iterator[Step]:
    """LHBench's micro-merge: few rows into a large table, and reads after it."""
    rows = int(data.MICRO_ROWS * scale)
    peer.create("micro", data.micro(data.ids(0, rows, 10)), ("key",))
    answer = _summary(peer, "count(*), sum(key), sum(CAST(value2 AS BIGINT))")
    change = Merge("few", ("key",), _UPSERT, inserts=True, matched="update")
    for percent in _UPDATE_SHARES:
        half = max(int(rows * percent / 200), 1)
        old = f"(SELECT id * {rows // half} id FROM {data.ids(0, half, 1)})"
        new = data.ids(rows, rows + half, 1)
        _view(peer, "few", f"{data.micro(old, 1)} UNION ALL {data.micro(new)}")
        yield Step(
            f"merge of {percent:g} %", lambda copy: peer.merge(copy, change), lambda: peer.copy("micro"), answer,
            finish=peer.forget,
        )  # fmt: skip
    merged = peer.merge(peer.copy("micro"), change)
    yield _query(peer, "count, merged", f"SELECT count(*) FROM {merged}")
    yield _query(peer, "filter, merged", f"SELECT count(*) FROM {merged} WHERE key IS NOT NULL")
    whole = "sum(key), round(sum(value) / 1e9, 3), sum(CAST(value2 AS BIGINT))"
    yield _query(peer, "whole scan, merged", f"SELECT {whole} FROM {merged}")


def files(peer: Peer, scale: float) -> Iterator[Step]:
    """LHBench's file counts: a table of partitions of one small file each, which grows to 200,000 x scale of them."""
    before = 0
    for full in _FILE_COUNTS:
        count = max(int(full * scale), before + 1)
        query = (
            "SELECT /*+ REPARTITION_BY_RANGE(8, day) */ * FROM (SELECT id ss_item_sk, CAST(id % 7 AS INT) ss_quantity, "
            f"id * 23 + 7 ss_sold_time_sk, CAST(id DIV {_ROWS_OF_A_FILE} AS INT) day "
            f"FROM {data.ids(before * _ROWS_OF_A_FILE, count * _ROWS_OF_A_FILE)})"
        )
        if before:
            peer.spark.sql(f"INSERT INTO many {query}")
        else:
            peer.create("many", query, partition="day")
        for name, text in {
            "LIMIT 1": "SELECT count(*) FROM (SELECT * FROM many LIMIT 1)",
            "count": "SELECT count(*) FROM many",
            "one partition": f"SELECT sum(ss_quantity) FROM many WHERE day = {count - 1}",
            "one value": f"SELECT sum(ss_quantity) FROM many WHERE ss_item_sk = {count * _ROWS_OF_A_FILE - 1}",
        }.items():
            yield _query(peer, f"{name}, {count:,} files", text)
        before = count


SUITES: dict[str, tuple[Callable[[Peer, float], Iterator[Step]], str]] = {
    "merges": (merges, "Delta's merge benchmark"),
    "refresh": (refresh, "LHBench: TPC-DS refresh"),
    "micro": (micro, "LHBench: merge microbenchmark"),
    "files": (files, "LHBench: large file count"),
}
"""By name: the steps, and a title."""
