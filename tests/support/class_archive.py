"""Spark's classes in an archive of the JVM (class data sharing), which each driver of the tests maps into its memory.

A small program in a new Spark session loads 10,000 classes out of 280 jars and checks their bytecode: 5 of its 14 CPU
seconds. `tests/run.py` makes the archive once for an environment. Where it is missing, or is of another Java or Spark,
the JVM loads classes as ever and says nothing. It takes 200 MB.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "SPARK_SUBMIT_OPTS"
"""Options that each driver gets which `spark-submit` starts, and so PySpark; the JVM that puts its command together
does not."""
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For the short jobs of tests: no core for the second compiler and for threads of the garbage collector."""
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
_STATEMENTS = (
    "CREATE DATABASE IF NOT EXISTS paimon.db",
    "CREATE TABLE paimon.db.made AS SELECT 1 id, 'a' v",
    "CREATE TABLE paimon.db.keyed_rows (id INT, v STRING, day INT) PARTITIONED BY (day) "
    "TBLPROPERTIES ('primary-key' = 'id,day', 'bucket' = '1')",
    "INSERT INTO paimon.db.keyed_rows SELECT id, concat('v', id), id % 2 FROM range(10)",
    "UPDATE paimon.db.keyed_rows SET v = 'x' WHERE id < 3",
    "DELETE FROM paimon.db.keyed_rows WHERE id = 4",
    "MERGE INTO paimon.db.keyed_rows t USING paimon.db.made s ON t.id = s.id AND t.day = 1 "
    "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v, day) VALUES (s.id, s.v, 0)",
    "SELECT day, count(*), max(v) FROM paimon.db.keyed_rows WHERE id > 1 GROUP BY day ORDER BY day",
    "SELECT a.id, row_number() OVER (PARTITION BY a.day ORDER BY a.id) FROM paimon.db.keyed_rows a "
    "JOIN paimon.db.made b ON a.id = b.id WHERE a.day IN (SELECT day FROM paimon.db.keyed_rows)",
    "DESCRIBE EXTENDED paimon.db.keyed_rows",
    "CALL paimon.sys.compact(table => 'db.keyed_rows')",
    "SELECT * FROM paimon.db.`keyed_rows$snapshots`",
    "DROP TABLE paimon.db.keyed_rows",
)
_PLUGIN = "spark.plugins=org.apache.spark.sql.connect.SparkConnectPlugin"
"""The classes of a Connect server, too."""


def archive_file() -> Path:
    """Where the archive of this interpreter's environment lies, made or not; another Java or Spark has another."""
    java = Path(os.environ["JAVA_HOME"], "bin/java") if "JAVA_HOME" in os.environ else Path(shutil.which("java") or "")
    parts = [java.resolve(), Path(str(distribution("pyspark").locate_file("pyspark/jars")))]
    kind = " ".join(f"{part} {part.stat().st_mtime_ns if part.exists() else 0}" for part in parts)
    return Path(sys.prefix, f"spark_classes_{sha256(kind.encode()).hexdigest()[:12]}.jsa")


def java_options(archive: Path) -> str:
    """Options of a JVM that uses an archive: none where it is missing."""
    return f"-XX:SharedArchiveFile={archive} {_QUIET}" if archive.is_file() else ""


def make() -> Path:
    """Make the archive where it is missing: run what tests run, and let the JVM write what it has loaded.

    Raises:
        subprocess.CalledProcessError: the program failed, or the JVM wrote nothing.
    """
    archive = archive_file()
    if archive.is_file():
        return archive
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        written = Path(folder, archive.name)
        settings = f"--conf {_PLUGIN} --conf spark.connect.grpc.binding.port=0"
        environment = {
            **os.environ,
            "JAVA_TOOL_OPTIONS": JVM_OPTIONS,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": f"{settings} pyspark-shell",
            "PYTHONPATH": str(ROOT),
            VARIABLE: f"-XX:ArchiveClassesAtExit={written} -Xlog:disable",
        }
        command = [sys.executable, "-m", "tests.support.class_archive", folder]
        subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL, capture_output=True, cwd=ROOT)
        for old in archive.parent.glob("spark_classes_*.jsa"):
            old.unlink()
        written.replace(archive)
    return archive


def run_statements(warehouse: str) -> None:
    """What tests do in their sessions; returns when the JVM has ended."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    import paimon_spark

    spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    paimon_spark.register(spark)
    paimon_spark.register_catalog(spark, "paimon", warehouse=warehouse)
    for statement in _STATEMENTS:
        spark.sql(statement).collect()
    path = f"{warehouse}/db.db/made"
    spark.createDataFrame([(3, "c")], "id int, v string").write.format("paimon").mode("append").save(path)
    paimon_spark.PaimonTable.for_path(spark, path).to_df().toPandas()
    stream = spark.readStream.format("paimon").load(path).writeStream.format("noop").trigger(availableNow=True)
    stream.option("checkpointLocation", f"{warehouse}/checkpoint").start().awaitTermination()
    jvm = SparkContext._gateway.proc
    spark.stop()
    jvm.stdin.close()
    jvm.wait()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_statements(sys.argv[1])
    else:
        print(make())
