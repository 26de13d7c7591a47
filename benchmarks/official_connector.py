"""The official JVM connector as a peer: 0.9.0 on Spark 3.5, in an environment of its own.

`benchmarks/run.py` uses this file twice over: as a module it makes the environment and starts the worker, as a script
(inside that environment) it reads the tables and prints seconds as JSON. The jar comes from Maven.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENVIRONMENT = ROOT / ".venvs" / "official"
ARTIFACT = "org.apache.paimon:paimon-spark-3.5:0.9.0"


def make_environment() -> Path | None:
    """PySpark 3.5 and the jar under `.venvs/official`; None where either cannot be had."""
    python = ENVIRONMENT / "bin" / "python"
    jars = ENVIRONMENT / "jars"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        if subprocess.run([str(python), "-m", "pip", "install", "-q", "pyspark>=3.5,<3.6"], check=False).returncode:
            return None
    if not list(jars.glob("*.jar")):
        copy = ["mvn", "-q", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={jars}"]
        if subprocess.run(copy, check=False).returncode:
            return None
    return python


def seconds(tables: dict[str, str], repeat: int = 3) -> dict[str, float] | None:
    """Best seconds of a whole read of each table (name → path) by the official connector, noop sink."""
    return _run("read", json.dumps(tables), str(repeat))


def compact_seconds(warehouse: str, names: list[str], copies: int) -> dict[str, float] | None:
    """Best seconds of a full compaction of `<warehouse>/db.db/<name><i>`, i up to `copies` - 1; the first warms up."""
    return _run("compact", warehouse, json.dumps(names), str(copies))


def _run(*arguments: str) -> dict[str, float] | None:
    """Start this file in the peer's environment."""
    python = make_environment()
    if python is None:
        return None
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK"))}
    command = [str(python), __file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return None
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def peer_session(**options: str):
    """A session of the peer's environment."""
    from pyspark.sql import SparkSession

    jar = next((ENVIRONMENT / "jars").glob("*.jar"))
    builder = SparkSession.builder.master("local[2]").config("spark.jars", str(jar))
    for key, value in {"spark.ui.enabled": "false", "spark.driver.memory": "6g", **options}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def compact_worker(warehouse: str, names: list[str], copies: int) -> dict[str, float]:
    """Runs inside the peer's environment."""
    catalog = "spark.sql.catalog.p"
    extensions = "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions"
    catalogs = {catalog: "org.apache.paimon.spark.SparkCatalog", f"{catalog}.warehouse": warehouse}
    spark = peer_session(**catalogs, **{"spark.sql.extensions": extensions})
    best: dict[str, float] = {}
    for name in names:
        for turn in range(copies):
            start = time.perf_counter()
            spark.sql(f"CALL p.sys.compact(table => 'db.{name}{turn}')").collect()
            if turn:
                best[name] = min(best.get(name, float("inf")), time.perf_counter() - start)
    return best


def worker(tables: dict[str, str], repeat: int) -> dict[str, float]:
    """Runs inside the peer's environment."""
    spark = peer_session()
    best: dict[str, float] = {}
    for name, path in tables.items():
        for turn in range(repeat + 1):
            start = time.perf_counter()
            spark.read.format("paimon").load(path).write.format("noop").mode("overwrite").save()
            if turn:
                best[name] = min(best.get(name, float("inf")), time.perf_counter() - start)
    return best


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    found = (
        worker(json.loads(rest[0]), int(rest[1]))
        if kind == "read"
        else compact_worker(rest[0], json.loads(rest[1]), int(rest[2]))
    )
    print(json.dumps(found))
