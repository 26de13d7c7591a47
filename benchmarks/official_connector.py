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
    python = make_environment()
    if python is None:
        return None
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK"))}
    command = [str(python), __file__, json.dumps(tables), str(repeat)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return None
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def worker(tables: dict[str, str], repeat: int) -> dict[str, float]:
    """Runs inside the peer's environment."""
    from pyspark.sql import SparkSession

    jar = next((ENVIRONMENT / "jars").glob("*.jar"))
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", str(jar))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "6g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    best: dict[str, float] = {}
    for name, path in tables.items():
        for turn in range(repeat + 1):
            start = time.perf_counter()
            spark.read.format("paimon").load(path).write.format("noop").mode("overwrite").save()
            if turn:
                best[name] = min(best.get(name, float("inf")), time.perf_counter() - start)
    return best


if __name__ == "__main__":
    print(json.dumps(worker(json.loads(sys.argv[1]), int(sys.argv[2]))))
