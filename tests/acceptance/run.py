"""Runs black-box cases (one .slt file each) against a Spark session that has a Paimon catalog named `c`.

The same file runs on two backends, so every expectation can be checked against the official connector first:
  --backend ours      PySpark as installed with the project; paimon_spark.register + paimon_spark.register_catalog
  --backend official  PySpark 4.1 with the official connector's jar (env OFFICIAL_JAR)
With `--remote sc://…` (ours only) the session is one of Spark Connect.
With `--metastore hive` (ours only) the names are in a Hive metastore, which is started for it.
With `--store s3|gcs|azure|hdfs|oss` (ours only) the warehouse lies on a server of that store, which is started for it.

File syntax (sqllogictest-like; blocks are separated by blank lines; `#` starts a comment line):
  statement ok                 SQL that must succeed
  statement error REGEX        SQL that must fail, its whole error text matching REGEX (case-insensitive, DOTALL)
  query [rowsort]              SQL, then a line `----`, then the expected rows, values joined by `|` (NULL for null)
  load VIEW TABLE [k=v;k=v]    temp view VIEW := spark.read.format("paimon").options(..).load(path of TABLE)
  load error REGEX TABLE [k=v] the same, collected, must fail
  save TABLE MODE [k=v;...]    the SQL of the block is written with
                               df.write.format("paimon").mode(MODE).options(..).save(path)
  save error REGEX TABLE MODE [k=v;...]
  let NAME = SQL               first value of the SQL's first row, used later as ${NAME}
  now NAME [seconds]           current epoch milliseconds, used later as ${NAME}; sleeps before and after, so that
                               every commit lies clearly on one side, also of the time in whole seconds
  stream VIEW TABLE [k=v;k=v]  temp view VIEW := all rows of readStream.format("paimon").options(..).load(path of
                               TABLE), trigger availableNow; `checkpoint=NAME` among the options: goes on where the
                               last stream with that NAME ended
  stream error REGEX TABLE [k=v;...]  the same, must fail
  sink TABLE OUTPUTMODE SOURCE [k=v;...] [/ k=v;...]  the SQL of the block, over the temp view `src` := readStream of
                               SOURCE (options before the slash), written by writeStream.format("paimon") (options after
                               it) to the path of TABLE, trigger availableNow; `checkpoint=NAME` as above
  sink error REGEX TABLE OUTPUTMODE SOURCE [...]  the same, must fail
  skip official|ours WHY       the rest of the file is not run on that backend
TABLE is a name inside the file's own database (`t$snapshots`, `t$branch_b` too); `$path(TABLE)` in any text gives its
directory. The database is named after the file. Options set by SET and temporary views are dropped at a file's end.
All clocks are UTC.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

APART_SECONDS = 0.05
"""`now` waits so long before and after: snapshots have milliseconds."""
SECONDS_APART = 1.1
"""`now NAME seconds` waits so long: the case rounds the time to seconds."""


def render(value: Any) -> str:
    """A value as the cases write it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, bytes | bytearray):
        return "0x" + bytes(value).hex()
    if isinstance(value, datetime.datetime):
        fraction = f".{value.microsecond:06d}" if value.microsecond else ""
        return value.strftime("%Y-%m-%d %H:%M:%S") + fraction
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda pair: str(pair[0]))
        return "{" + ",".join(f"{render(k)}:{render(v)}" for k, v in pairs) + "}"
    if hasattr(value, "__fields__"):
        return "(" + ",".join(render(item) for item in value) + ")"
    if isinstance(value, list | tuple):
        return "[" + ",".join(render(item) for item in value) + "]"
    return str(value)


def parse(text: str) -> Iterator[tuple[str, list[str]]]:
    """The blocks of a file: the directive's line and the lines below it."""
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.split("\n") if line.strip() and not line.startswith("#")]
        if lines:
            yield lines[0].strip(), lines[1:]


class Session:
    """A Spark session with the catalog `c` of one of the two connectors, and directories of its own."""

    def __init__(self, backend: str, store: Any = None, remote: str | None = None) -> None:
        self.backend = backend
        self.wh, self.checkpoints = tempfile.mkdtemp(prefix="slt-"), tempfile.mkdtemp(prefix="slt-cp-")
        self.store_options: dict[str, str] = {}
        self.scratch = self.wh
        if store is not None:
            self.wh, self.store_options = store.root, store.options
        os.environ["TZ"] = "UTC"
        time.tzset()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        from pyspark.sql import SparkSession

        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.memory": "3g",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.log.level": "ERROR",
        }
        if backend == "official":
            settings |= {
                "spark.jars": os.environ["OFFICIAL_JAR"],
                "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
                "spark.sql.catalog.c": "org.apache.paimon.spark.SparkCatalog",
                "spark.sql.catalog.c.warehouse": self.wh,
                # else the catalog misses what other sessions and save(path) did
                "spark.sql.catalog.c.cache-enabled": "false",
            }
        builder = SparkSession.builder.remote(remote) if remote else SparkSession.builder.master("local[2]")
        if remote:  # the rest is the server's
            settings = {key: value for key, value in settings.items() if key.startswith("spark.sql.")}
        builder = builder.appName("slt")
        for key, value in settings.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        if backend == "ours":
            import paimon_spark

            paimon_spark.register(self.spark)
            paimon_spark.register_catalog(self.spark, "c", **{"warehouse": self.wh, **self.store_options})

    def path(self, database: str, table: str) -> str:
        """The directory of a table."""
        return f"{self.wh}/{database}.db/{table}"

    def close(self) -> None:
        """Delete what lies on the local disk."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.rmtree(self.checkpoints, ignore_errors=True)


def local_copy(path: str, store_options: dict[str, str], folder: str) -> str:
    """Copy a file of a store that the JVM has no file system for; return where the copy is."""
    from paimon_spark.storage.file_io import FileIO

    copy = Path(folder) / path.partition("://")[2]
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(FileIO.for_path(path, store_options).read_bytes(path))
    return str(copy)


def options(text: str | None) -> dict[str, str]:
    """`k=v;k=v` as a dict."""
    return dict(pair.split("=", 1) for pair in text.split(";") if pair.strip()) if text else {}


def causes(error: Any) -> str:
    """The text of an error with the messages of its JVM causes."""
    text, cause = str(error), getattr(error, "_origin", None)
    while cause is not None:
        text += f"\n{cause.toString()}"
        cause = cause.getCause()
    return text


class Run:
    """One file on one session: what its steps share."""

    def __init__(self, session: Any, name: str) -> None:
        self.session, self.spark = session, session.spark
        self.database = re.sub(r"\W", "_", name.lower())
        self.values: dict[str, Any] = {}
        self.settings: list[str] = []
        self.views = {"src"}
        self.spark.sql(f"CREATE DATABASE IF NOT EXISTS c.{self.database}")
        self.spark.sql(f"USE c.{self.database}")
        shutil.rmtree(os.path.join(session.checkpoints, self.database), ignore_errors=True)

    def close(self) -> None:
        """Drop settings and views, which the next file must not see."""
        for key in self.settings:
            self.spark.conf.unset(key)
        for view in self.views:
            self.spark.catalog.dropTempView(view)

    def path(self, table: str) -> str:
        return str(self.session.path(self.database, table))

    def file(self, table: str, rest: str) -> str:
        """The path of a table, or of a file in it that the JVM can open."""
        path = self.path(table) + rest
        if not rest or "://" not in path:
            return path
        return local_copy(path, self.session.store_options, self.session.checkpoints)

    def filled_in(self, text: str) -> str:
        """The text with `$path(…)` and `${…}` replaced."""
        text = re.sub(r"\$path\(([^)]+)\)([\w/-]*)", lambda found: self.file(*found.groups()), text)
        return re.sub(r"\$\{(\w+)\}", lambda found: str(self.values[found.group(1)]), text)

    def step(self, head: str, body: str) -> None:
        """Run one block; an AssertionError, or whatever Spark raises, is its failure."""
        word, _, rest = head.partition(" ")
        for found in (
            re.match(r"CREATE\s+(?:OR\s+REPLACE\s+)?TEMP(?:ORARY)?\s+VIEW\s+(\w+)", body, re.I),
            re.match(r"(?:load|stream) (?!error )(\w+)", head),
        ):
            if found:
                self.views.add(found.group(1))
        if found := re.match(r"SET\s+`?([\w.*-]+)`?\s*=", body, re.I):
            self.settings.append(found.group(1))
        directive = getattr(self, f"_{word}", None)
        if directive is None:
            raise AssertionError(f"unknown directive {word}")
        directive(rest.strip(), body)

    def _now(self, rest: str, _body: str) -> None:
        name, _, precision = rest.partition(" ")
        pause = SECONDS_APART if precision == "seconds" else APART_SECONDS
        time.sleep(pause)
        self.values[name] = int(time.time() * 1000)
        time.sleep(pause)

    def _let(self, rest: str, body: str) -> None:
        name, query = rest.split("=", 1)
        self.values[name.strip()] = self.spark.sql(query + "\n" + body).collect()[0][0]

    def _statement(self, rest: str, sql: str) -> None:
        if rest == "ok":
            self.spark.sql(sql).collect()
        else:
            _must_fail(rest.removeprefix("error").strip(), lambda: self.spark.sql(sql).collect())

    def _query(self, rest: str, body: str) -> None:
        sql, _, text = body.partition("\n----")
        expected = [line.strip() for line in text.strip().split("\n") if line.strip()]
        found = ["|".join(render(value) for value in row) for row in self.spark.sql(sql).collect()]
        if rest == "rowsort":
            found, expected = sorted(found), sorted(expected)
        if found != expected:
            raise AssertionError(f"got {found}\n   want {expected}")

    def _load(self, rest: str, _body: str) -> None:
        error, first, table, given = _view_or_error(rest)
        read = self.spark.read.format("paimon").options(**self.session.store_options, **given)
        if error is not None:
            _must_fail(error, lambda: read.load(self.path(table)).collect())
        else:
            read.load(self.path(table)).createOrReplaceTempView(first)

    def _save(self, rest: str, sql: str) -> None:
        found = re.match(r"(?:error (?P<error>.+) )?(\S+) (append|overwrite)(?:\s+(.*))?$", rest)
        assert found, f"save {rest}"
        _, table, mode, given = found.groups()

        def save() -> None:
            written = self.spark.sql(sql).write.format("paimon").mode(mode).options(**self.session.store_options)
            written.options(**options(given)).save(self.path(table))

        _do(save, found["error"])

    def _stream(self, rest: str, _body: str) -> None:
        error, view, table, given = _view_or_error(rest)
        _do(lambda: self._streamed(table, given, view), error)

    def _streamed(self, table: str, given: dict[str, str], view: str | None) -> None:
        checkpoint = given.pop("checkpoint", None)
        os.makedirs(self.session.checkpoints, exist_ok=True)
        batches = tempfile.mkdtemp(dir=self.session.checkpoints)  # in files: Connect runs the function on the server
        reader = self.spark.readStream.format("paimon").options(**self.session.store_options)
        df = reader.options(**given).load(self.path(table))
        writer = df.writeStream.foreachBatch(lambda batch, number: batch.write.parquet(f"{batches}/{number}"))
        self._until_now(writer, checkpoint, lambda w: w.start())
        if view:
            found = [f"{batches}/{number}" for number in sorted(map(int, os.listdir(batches)))]
            read = self.spark.read.schema(df.schema)
            rows = read.parquet(*found) if found else self.spark.createDataFrame([], df.schema)
            rows.createOrReplaceTempView(view)

    def _sink(self, rest: str, sql: str) -> None:
        found = re.match(r"(?:error (?P<error>.+) )?(\S+) (append|update|complete) (\S+)(?:\s+(.*))?$", rest)
        assert found, f"sink {rest}"
        _, table, mode, source, text = found.groups()

        def sink() -> None:
            left, _, right = (text or "").partition("/")
            read, write = (self.session.store_options | options(part.strip()) for part in (left, right))
            checkpoint = read.pop("checkpoint", None)
            rows = self.spark.readStream.format("paimon").options(**read).load(self.path(source))
            rows.createOrReplaceTempView("src")
            writer = self.spark.sql(sql).writeStream.format("paimon").outputMode(mode).options(**write)
            self._until_now(writer, checkpoint, lambda w: w.start(self.path(table)))

        _do(sink, found["error"])

    def _until_now(self, writer: Any, checkpoint: str | None, start: Callable[[Any], Any]) -> None:
        location = os.path.join(self.session.checkpoints, self.database, checkpoint or f"cp{time.time_ns()}")
        query = start(writer.trigger(availableNow=True).option("checkpointLocation", location))
        if not query.awaitTermination(180):
            query.stop()
            raise AssertionError("the stream did not end")


def _view_or_error(rest: str) -> tuple[str | None, str, str, dict[str, str]]:
    """`VIEW TABLE [k=v]` or `error REGEX TABLE [k=v]` as (regex, view, table, options)."""
    if rest.startswith("error "):
        found = re.match(r"error (.+) ([^\s=]+)(?:\s+(\S+=.*))?$", rest)
        assert found, rest
        return found.group(1), "", found.group(2), options(found.group(3))
    view, table, *given = rest.split(None, 2)
    return None, view, table, options(given[0] if given else "")


def _do(action: Callable[[], Any], error: str | None) -> None:
    if error is None:
        action()
    else:
        _must_fail(error, action)


def _must_fail(pattern: str, action: Callable[[], Any]) -> None:
    try:
        action()
    except Exception as error:
        if not re.search(pattern, causes(error), re.I | re.S):
            raise AssertionError(f"error does not match /{pattern}/: {causes(error)[:900]}") from error
        return
    raise AssertionError(f"expected an error matching /{pattern}/, none came")


def run_file(session: Any, path: str, keep: bool = False) -> tuple[int, str | None]:
    """Run one file; give the number of steps passed and the text of the failure, None when it holds.

    `keep` goes on after a failed step and gives all failures.
    """
    run = Run(session, os.path.basename(path).removesuffix(".slt"))
    passed, failures = 0, []
    for head, lines in parse(Path(path).read_text(encoding="utf-8")):
        body = "\n".join(lines)
        try:
            head, body = run.filled_in(head), run.filled_in(body)
            if head.startswith("skip "):
                if head.split()[1] == session.backend:
                    break
                continue
            run.step(head, body)
            passed += not head.startswith(("now ", "let "))
        except Exception as error:  # noqa: BLE001 - of whatever class: the step has failed
            step = passed + len(failures) + 1
            text = f"{type(error).__name__} {causes(error)[:1200]}"
            failures.append(f"step {step} [{head[:60]}] {body[:160]!r}: {text}")
            if not keep:
                break
    run.close()
    return passed, "\n".join(failures) or None


def main() -> int:
    """Run the cases that the command line names."""
    parser = argparse.ArgumentParser(description="Runs acceptance cases.")
    parser.add_argument("--backend", default="ours", choices=("ours", "official"))
    parser.add_argument(
        "--store", choices=("s3", "gcs", "azure", "hdfs", "oss"), help="where the warehouse lies, if not here"
    )
    parser.add_argument("--metastore", choices=("hive",), help="who keeps the names, if not directories")
    parser.add_argument("--remote", help="the URL of a Spark Connect server on this machine, whose clock is UTC")
    parser.add_argument("-v", action="store_true", help="shows each case with its number of steps")
    parser.add_argument("--json", help="where to write case -> failure")
    parser.add_argument("-k", action="store_true", help="goes on after a failed step")
    parser.add_argument("cases", nargs="+", help="files, or folders of them")
    arguments = parser.parse_args()
    files = [
        file
        for case in map(Path, arguments.cases)
        for file in (sorted(case.rglob("*.slt")) if case.is_dir() else [case])
    ]
    with ExitStack() as opened:
        store = None
        if arguments.store or arguments.metastore:
            sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
        if arguments.metastore:
            from tests.support.hive_server import hive_server, hive_warehouse

            store = hive_warehouse(
                opened.enter_context(hive_server(strict=False)), opened.enter_context(tempfile.TemporaryDirectory())
            )
        elif arguments.store:
            from tests.support.store_servers import store_server

            store = opened.enter_context(store_server(arguments.store))
        return _run_all(Session(arguments.backend, store, arguments.remote), files, arguments)


def _run_all(session: Session, files: list[Path], arguments: argparse.Namespace) -> int:
    results: dict[str, str | None] = {}
    for file in files:
        try:
            steps, error = run_file(session, str(file), arguments.k)
        except Exception as problem:  # noqa: BLE001 - the next case goes on
            steps, error = 0, f"{type(problem).__name__} {str(problem)[:800]}"
        results[file.stem] = error
        if error:
            print(f"FAIL {file.stem}: {error if arguments.v else error[:300]}", flush=True)
        elif arguments.v:
            print(f"ok   {file.stem} ({steps} steps)", flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1), encoding="utf-8")
    session.close()
    bad = [name for name, error in results.items() if error]
    missing = f": missing {' '.join(bad)}" if bad else ""
    print(f"{len(files) - len(bad)} of {len(files)} cases hold{missing}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
