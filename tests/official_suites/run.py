"""Run the official project's Spark suites on this package: `run.py --sources GIT_DIRECTORY --files REGEX`.

One line per case: passed, or what failed, also in `WORK/results.jsonl`: `--resume` goes on after the last one, and
`--report` counts them. Cases that need the official connector's classes are listed as not readable. `reasons.csv` says
of failing cases why they fail on purpose: a report counts them by reason, and lists the others.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.official_suites.read import compiled, take  # noqa: E402
from tests.oracle.paimon_oracle import cache_dir  # noqa: E402
from tests.support.hive_server import hive_server  # noqa: E402
from tests.support.maven_jars import fetched, spark_jars  # noqa: E402

_TEST = "3.2.19"


def needed_jars() -> list[str]:
    """ScalaTest, and Java Paimon for the questions that suites ask of a table."""
    names = [("org.scalatest", f"scalatest-{part}") for part in ("core_2.13", "funsuite_2.13", "compatible")]
    names += [("org.scalactic", "scalactic_2.13")]
    bundle = sorted((Path(cache_dir()) / "jars").glob("paimon-bundle-*.jar"))[-1]
    alone = [*((*name, _TEST) for name in names), ("org.assertj", "assertj-core", "3.23.1")]
    alone += [("org.junit.jupiter", "junit-jupiter-api", "5.8.1"), ("org.opentest4j", "opentest4j", "1.2.0")]
    alone += [
        ("org.junit.platform", "junit-platform-commons", "1.8.1"),
        ("org.apiguardian", "apiguardian-api", "1.1.2"),
    ]
    return [*fetched(f"official-suites-{_TEST}-junit", alone), str(bundle)]


def session(jars: list[str], warehouse: str, hive: dict[str, str]) -> Any:
    """A session with the catalogs `paimon` and `paimon_hive`, which runs what is in the jars."""
    from pyspark.sql import SparkSession

    import paimon_spark

    os.environ["TZ"] = "America/Los_Angeles"  # as the JVM's
    time.tzset()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Java Paimon has a data source of the same name only in its Spark module, which is not here.
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.extraClassPath", os.pathsep.join(jars))
        .config(
            "spark.driver.extraJavaOptions",
            f"-Dofficial.warehouse={warehouse} "
            f"-Dofficial.hive={hive['warehouse']} -Dofficial.hive.uri={hive['uri']} "
            "-Duser.timezone=America/Los_Angeles "
            "-Xss8m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "  # short statements: compiling them well takes longer
            "-Dscala.concurrent.context.numThreads=8 -Dscala.concurrent.context.maxThreads=8",  # cases wait for threads
        )
        .config("spark.sql.session.timeZone", "America/Los_Angeles")
        .config("spark.sql.warehouse.dir", tempfile.mkdtemp())
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "1500m")
        .config("spark.python.worker.faulthandler.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    paimon_spark.register(spark)
    paimon_spark.register_catalog(spark, "paimon", warehouse=warehouse)
    paimon_spark.register_catalog(spark, "paimon_hive", **hive)
    spark.sql("CREATE DATABASE IF NOT EXISTS paimon.default")
    return spark


def suites(classes: Path) -> list[str]:
    """Names of the classes that may be suites; without one that stops the session."""
    names = (str(path.relative_to(classes))[: -len(".class")].replace("/", ".") for path in classes.rglob("*.class"))
    return sorted(name for name in names if "$" not in name and re.search(r"(?<!ConfigCheck)(Test|Suite|Case)$", name))


def reason(suite: str, case: str, said: str) -> str | None:
    """Why a case fails on purpose: the first line of `reasons.csv` whose suite, case and answer match."""
    with (Path(__file__).parent / "reasons.csv").open() as lines:
        for line in csv.DictReader(lines):
            found = (line["suite"], suite), (line["case"], case), (line["answer"], said)
            if all(re.search(pattern, text, re.DOTALL) for pattern, text in found):
                return line["reason"]
    return None


def report(results: Path) -> str:
    """How many cases passed and failed, by reason; then the failures without one."""
    last = {(one["suite"], one["case"]): one for one in map(json.loads, results.read_text().splitlines())}
    counts: Counter[str] = Counter()
    open_failures = []
    for one in last.values():
        said = one["said"]
        why = None if said in ("passed", "ignored") else reason(one["suite"], one["case"], said)
        counts[said if said in ("passed", "ignored") else why or "failed"] += 1
        if said not in ("passed", "ignored") and why is None:
            open_failures.append(f"{one['seconds']:5.1f} s {one['suite']}: {one['case']}: {said[:900]!r}")
    lines = [f"{count:5} {what}" for what, count in counts.most_common()]
    return "\n".join([*lines, f"{len(last):5} cases", *sorted(open_failures)])


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sources", required=True, help="the git directory of a checkout of apache/paimon")
    options.add_argument(
        "--work", default=tempfile.gettempdir() + "/official_suites", help="where the classes are kept"
    )
    options.add_argument("--files", default="", help="compile only files whose name matches")
    options.add_argument("--again", action="store_true", help="run what was compiled before")
    options.add_argument("--suites", default="", help="run only suites whose name matches")
    options.add_argument("--first", default="$^", help="run the suites whose name matches before the others")
    options.add_argument("--cases", default="", help="run only cases whose name matches")
    options.add_argument("--resume", action="store_true", help="do not run again what has a result")
    options.add_argument("--report", action="store_true", help="run nothing; count the results of before")
    options.add_argument("--seconds", type=int, default=120, help="for one case")
    chosen = options.parse_args()
    work = Path(chosen.work)
    if chosen.report:
        print(report(work / "results.jsonl"))
        return 0
    sources, classes = work / "sources", work / "classes"
    jars = needed_jars()
    if not chosen.again:
        for folder in (sources, classes):
            folder.mkdir(parents=True, exist_ok=True)
        cut = compiled(take(chosen.sources, sources, chosen.files), os.pathsep.join([*spark_jars(), *jars]), classes)
        (work / "not_readable.txt").write_text("".join(f"not readable: {what}\n" for what in cut))
    print((work / "not_readable.txt").read_text(), end="")
    run_all(work, [str(classes), *jars], chosen)
    print(report(work / "results.jsonl"))
    return 0


def run_all(work: Path, jars: list[str], chosen: argparse.Namespace) -> None:
    """Run the chosen cases in one session alongside a Hive metastore, and write each answer as it comes."""
    with hive_server(strict=False) as server:
        hive = {"metastore": "hive", "uri": server.uri, "warehouse": tempfile.mkdtemp()}
        run_in(session(jars, tempfile.mkdtemp(), hive), work, chosen)


def run_in(spark: Any, work: Path, chosen: argparse.Namespace) -> None:
    """Run the chosen cases in a session, and end it."""
    results = work / "results.jsonl"
    done = set()
    if chosen.resume and results.exists():
        done = {(one["suite"], one["case"]) for one in map(json.loads, results.read_text().splitlines())}
    runner = spark._jvm.official.Runner
    for suite in sorted(suites(work / "classes"), key=lambda name: not re.search(chosen.first, name)):
        short = suite.rpartition(".")[2]
        for name in cases(runner, suite) if re.search(chosen.suites, suite) else []:
            if re.search(chosen.cases, name) and (short, name) not in done:
                start = time.monotonic()
                said = runner.run(suite, name, chosen.seconds)
                took = time.monotonic() - start
                with results.open("a") as log:
                    one = {"suite": short, "case": name, "seconds": round(took, 1), "said": said[:3000]}
                    log.write(json.dumps(one) + "\n")
                print(f"{took:5.1f} s {short}: {name}: {said[:900]!r}", flush=True)
    spark.stop()


def cases(runner: Any, suite: str) -> list[str]:
    """The cases of a class; none of one that is no suite."""
    try:
        return list(runner.cases(suite))
    except Py4JJavaError as error:
        if "InstantiationException" not in str(error):  # not an abstract class
            print(f"not a suite: {suite}: {str(error)[:300]!r}", flush=True)
        return []


if __name__ == "__main__":
    sys.exit(main())
