"""Run the official project's Spark suites on this package: `run.py --sources GIT_DIRECTORY --files REGEX`.

One line per case: passed, or what failed. Cases that need the official connector's classes are listed as not readable.
"""

from __future__ import annotations

import argparse
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
from tests.support.maven_jars import fetched, spark_jars  # noqa: E402

_TEST = "3.2.19"


def needed_jars() -> list[str]:
    """ScalaTest, and Java Paimon for the questions that suites ask of a table."""
    names = [("org.scalatest", f"scalatest-{part}") for part in ("core_2.13", "funsuite_2.13", "compatible")]
    names += [("org.scalactic", "scalactic_2.13")]
    bundle = sorted((Path(cache_dir()) / "jars").glob("paimon-bundle-*.jar"))[-1]
    alone = [*((*name, _TEST) for name in names), ("org.assertj", "assertj-core", "3.23.1")]
    return [*fetched(f"official-suites-{_TEST}", alone), str(bundle)]


def session(jars: list[str], warehouse: str) -> Any:
    """A session with the catalog `paimon`, which runs what is in the jars."""
    from pyspark.sql import SparkSession

    import paimon_spark

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Java Paimon has a data source of the same name only in its Spark module, which is not here.
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.extraClassPath", os.pathsep.join(jars))
        .config(
            "spark.driver.extraJavaOptions",
            f"-Dofficial.warehouse={warehouse} -Xss8m -Duser.timezone=America/Los_Angeles",
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
    spark.sql("CREATE DATABASE IF NOT EXISTS paimon.default")
    return spark


def suites(classes: Path) -> list[str]:
    """Names of the classes that may be suites."""
    names = (str(path.relative_to(classes))[: -len(".class")].replace("/", ".") for path in classes.rglob("*.class"))
    return sorted(name for name in names if "$" not in name and re.search(r"(Test|Suite|Case)$", name))


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sources", required=True, help="the git directory of a checkout of apache/paimon")
    options.add_argument(
        "--work", default=tempfile.gettempdir() + "/official_suites", help="where the classes are kept"
    )
    options.add_argument("--files", default="", help="compile only files whose name matches")
    options.add_argument("--again", action="store_true", help="run what was compiled before")
    options.add_argument("--suites", default="", help="run only suites whose name matches")
    options.add_argument("--cases", default="", help="run only cases whose name matches")
    options.add_argument("--seconds", type=int, default=120, help="for one case")
    chosen = options.parse_args()
    work = Path(chosen.work)
    sources, classes = work / "sources", work / "classes"
    jars = needed_jars()
    if not chosen.again:
        for folder in (sources, classes):
            folder.mkdir(parents=True, exist_ok=True)
        cut = compiled(take(chosen.sources, sources, chosen.files), os.pathsep.join([*spark_jars(), *jars]), classes)
        (work / "not_readable.txt").write_text("".join(f"not readable: {what}\n" for what in cut))
    print((work / "not_readable.txt").read_text(), end="")
    spark = session([str(classes), *jars], tempfile.mkdtemp())
    runner = spark._jvm.official.Runner
    counts: Counter[str] = Counter()
    for suite in suites(classes):
        if not re.search(chosen.suites, suite):
            continue
        try:
            names = list(runner.cases(suite))
        except Py4JJavaError as error:  # an abstract class, or one that is no suite
            if "InstantiationException" not in str(error):
                print(f"not a suite: {suite}: {str(error)[:300]!r}", flush=True)
            continue
        for name in names:
            if re.search(chosen.cases, name):
                start = time.monotonic()
                said = runner.run(suite, name, chosen.seconds)
                counts[said if said in ("passed", "ignored") else "failed"] += 1
                took = time.monotonic() - start
                print(f"{took:5.1f} s {suite.rpartition('.')[2]}: {name}: {said[:900]!r}", flush=True)
    print(dict(counts))
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
