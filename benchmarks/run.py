"""All figures of `RESULTS.md` in one run: `python benchmarks/run.py` prints the tables.

On a quiet machine the ratios are kept in `figures.csv`, with their date, and `RESULTS.md` shows them.

Reading and writing are ratios against Spark's own Parquet in the same session, taken in turn; pypaimon and the official
connector (0.9.0 on Spark 3.5) read the same tables in environments of their own.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path

import deletion_vectors
import merge_on_read
import official_connector
import pyspark
import read_append
import read_compacted
import record
import write
from common import KEY_TABLES, Ratio, scratch, spark_session


def official() -> None:
    """Whole reads by the official connector, in seconds: a JVM of its own, so no ratio is taken."""
    tables = {name: scratch(name.replace(" ", "_")) for name in KEY_TABLES}
    seconds = official_connector.seconds({"append": scratch("append"), **tables})
    if seconds is None:
        print("the official connector 0.9.0 did not resolve or did not read the tables")
        return
    print("\n| official connector 0.9.0, Spark 3.5 | s |\n|---|---|")
    for name, value in seconds.items():
        print(f"| {name} | {value:.2f} |")


def figure_of(ratio: Ratio, limit: float | None) -> record.Figure:
    """What is kept of a ratio."""
    return {
        "date": date.today().isoformat(),
        "pyspark": ".".join(pyspark.__version__.split(".")[:2]),
        "measured": ratio.name,
        "seconds": f"{ratio.seconds:.2f}",
        "yardstick_seconds": f"{ratio.yardstick_seconds:.2f}",
        "ratio": f"{ratio.value:.2f}",
        "aim": "" if limit is None else f"{limit:g}",
    }


def main() -> None:
    """Run everything, the quick things last."""
    quiet = record.is_quiet()
    print("| measured | s | yardstick s | ratio | at most |\n|---|---|---|---|---|", flush=True)
    found = []
    for module in (read_append, read_compacted, merge_on_read, deletion_vectors, write):
        for ratio, limit in module.run():
            print(ratio.line(limit), flush=True)
            found.append(figure_of(ratio, limit))
    if quiet:
        record.add_figures(found)
        record.main()
    else:
        print(f"\nnothing is recorded: the load was not under {record.QUIET_LOAD:g} when this began")
    spark_session().stop()
    official()
    for script in ("plan_reads.py", "files_table.py", "merge_kernel.py"):
        print(f"\n{script}", flush=True)
        subprocess.run([sys.executable, str(Path(__file__).parent / script)], check=True)


if __name__ == "__main__":
    main()
