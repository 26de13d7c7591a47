"""What a new user waits for: `python benchmarks/first_hour.py` prints what `RESULTS.md` shows.

Seconds from a clone of this repository to the first rows (an environment, its packages, the first block of the README),
and in a fresh JVM the seconds of `register`, of `register_catalog`, of the first write and of the first read, clock and
CPU of this process and its children. Packages come from pip's cache where it has them.

`--official JAR` compares a catalog's first statements in a fresh JVM with those of the official connector instead: one
process each in turn, each with a warehouse of its own (`--official-python`: an interpreter with the PySpark that the
jar is made for, which both run on).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REPEAT = 2
STEPS = """
import json, sys, time
begin = time.time()
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.range(1).count()
rows = spark.createDataFrame([(1, "a"), (2, "b")], "id int, v string")
seconds = {"a session and its first query": time.time() - begin}
def step(name, run):
    start = time.time()
    run()
    seconds[name] = time.time() - start
import paimon_spark
step("`register`", lambda: paimon_spark.register(spark))
path = sys.argv[1] + "/shop.db/t"
step("the first write", lambda: rows.write.format("paimon").option("primary-key", "id").mode("append").save(path))
step("the second write", lambda: rows.write.format("paimon").mode("append").save(path))
step("the first read", lambda: spark.read.format("paimon").load(path).collect())
step("`register_catalog`", lambda: paimon_spark.register_catalog(spark, "paimon", warehouse=sys.argv[1]))
step("the first statement", lambda: spark.sql("SELECT * FROM paimon.shop.t").collect())
spark.stop()
print(json.dumps(seconds))
"""


ROUNDS = 5
STATEMENTS = """
import json, sys, time
from pyspark.sql import SparkSession
root, jar = sys.argv[1:3]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
if jar:
    builder = (
        builder.config("spark.jars", jar)
        .config("spark.sql.extensions", "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions")
        .config("spark.sql.catalog.c", "org.apache.paimon.spark.SparkCatalog")
        .config("spark.sql.catalog.c.warehouse", root)
    )
seconds = {}
def step(name, run):
    start = time.time()
    run()
    seconds[name] = time.time() - start
def register():
    import paimon_spark
    paimon_spark.register(spark)
    paimon_spark.register_catalog(spark, "c", warehouse=root)
spark = None
def session():
    global spark
    spark = builder.getOrCreate()
step("the session", session)
step("the catalog", (lambda: None) if jar else register)
step("CREATE DATABASE, CREATE TABLE", lambda: [spark.sql(s) for s in (
    "CREATE DATABASE IF NOT EXISTS c.d",
    "CREATE TABLE c.d.t (k INT, v STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='2')")])
step("the first write (1,000 rows)", lambda: spark.sql("INSERT INTO c.d.t SELECT id, 'x' FROM range(1000)").collect())
step("the first query", lambda: spark.sql("SELECT count(v), max(k) FROM c.d.t").collect())
step("the first UPDATE", lambda: spark.sql("UPDATE c.d.t SET v = 'y' WHERE k = 1").collect())
seconds["from the session on"] = sum(seconds.values())
print(json.dumps(seconds))
"""


def environment() -> dict[str, str]:
    """The environment of a user, who has set nothing."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "PYTHON"))}


def from_clone() -> dict[str, float]:
    """Clone, make an environment, install, run the first block of the README."""
    seconds: dict[str, float] = {}
    folder = Path(tempfile.mkdtemp())

    def step(name: str, *command: str, cwd: Path = folder) -> None:
        begin = time.time()
        subprocess.run(command, cwd=cwd, check=True, env=environment(), stdout=subprocess.DEVNULL)
        seconds[name] = time.time() - begin

    clone = folder / "clone"
    python = clone / ".venv/bin/python"
    step("`git clone`", "git", "clone", "-q", str(ROOT), str(clone))
    step("an environment", sys.executable, "-m", "venv", str(clone / ".venv"))
    step("`pip install .`", str(python), "-m", "pip", "install", "-q", ".", cwd=clone)
    readme = (clone / "README.md").read_text(encoding="utf-8")
    first = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)[0]
    step("the first block of the README", str(python), "-c", first)
    return seconds | {"from clone to rows": sum(seconds.values())}


def in_a_fresh_jvm() -> dict[str, float]:
    """The steps of a program, best of some runs, each in a JVM of its own."""
    runs = []
    for _ in range(REPEAT):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", STEPS, folder]
            done = subprocess.run(command, check=True, env=environment(), capture_output=True, text=True)
            runs.append(json.loads(done.stdout.splitlines()[-1]))
    return {name: min(run[name] for run in runs) for name in runs[0]}


def beside_the_official_connector(jar: str, python: str) -> None:
    """Print the median seconds of each statement, ours and the official connector's, one process each in turn."""
    runs: dict[str, list[dict[str, float]]] = {"": [], jar: []}
    for _ in range(ROUNDS):
        for given, found in runs.items():
            with tempfile.TemporaryDirectory() as folder:
                command = [python, "-c", STATEMENTS, folder, given]
                done = subprocess.run(
                    command, check=True, env={**environment(), "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
                )
                found.append(json.loads(done.stdout.splitlines()[-1]))
    for name in runs[jar][0]:
        ours, theirs = (statistics.median(run[name] for run in found) for found in runs.values())
        ratio = f"{ours / theirs:.2f}" if theirs > 0.01 else "-"
        print(f"| {name} | {ours:.2f} | {theirs:.2f} | {ratio} |", flush=True)


def main() -> None:
    """Print both, or the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--official")
    parser.add_argument("--official-python", default=sys.executable)
    given = parser.parse_args()
    if given.official:
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
        beside_the_official_connector(given.official, given.official_python)
        return
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    for measure in (in_a_fresh_jvm, from_clone):
        for name, taken in measure().items():
            print(f"| {name} | {taken:.2f} |", flush=True)


if __name__ == "__main__":
    main()
