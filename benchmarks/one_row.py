"""One row at a time: `INSERT … VALUES` of a row into small tables of some kinds, warm.

`python benchmarks/one_row.py` prints best and median milliseconds of each kind, as `RESULTS.md` shows them. With
`PAIMON_OFFICIAL_JAR` the same of the official connector, in a process of its own (see `interactive.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from statistics import median

from interactive import JAR, PEER_PYTHON, session

KINDS = {
    "primary key, one bucket": "'primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true'",
    "primary key, dynamic buckets": "'primary-key' = 'id', 'write-only' = 'true'",
    "append": "'bucket' = '-1', 'write-only' = 'true'",
}
WARM_UP, REPEAT = 8, 20


def main(official: bool) -> None:
    """Print a line for each kind."""
    with tempfile.TemporaryDirectory() as warehouse:
        if official:
            extensions = "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions"
            catalog = {"spark.sql.catalog.p": "org.apache.paimon.spark.SparkCatalog"}
            place = {"spark.sql.catalog.p.warehouse": warehouse}
            spark = session(**{"spark.jars": str(JAR), "spark.sql.extensions": extensions, **catalog, **place})
        else:
            import paimon_spark

            spark = session()
            paimon_spark.register_catalog(spark, "p", warehouse=warehouse)
        spark.sql("CREATE DATABASE IF NOT EXISTS p.d")
        for number, (kind, options) in enumerate(KINDS.items()):
            table = f"p.d.t{number}"
            spark.sql(f"CREATE TABLE {table} (id INT NOT NULL, v STRING) USING paimon TBLPROPERTIES ({options})")
            taken = []
            for row in range(WARM_UP + REPEAT):
                begun = time.perf_counter()
                spark.sql(f"INSERT INTO {table} VALUES ({row}, 'a')")
                taken.append((time.perf_counter() - begun) * 1000)
            own = taken[WARM_UP:]
            print(f"{'official' if official else 'ours':9} {kind:30} best {min(own):.0f} median {median(own):.0f} ms")


if __name__ == "__main__":
    main("--official" in sys.argv)
    if JAR and "--official" not in sys.argv:
        subprocess.run([PEER_PYTHON, __file__, "--official"], check=True, env=dict(os.environ))
