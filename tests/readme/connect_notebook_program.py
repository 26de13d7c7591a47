"""Runs a notebook on Spark Connect and compares its outputs with those stored: `… sc://host:port notebook.ipynb`.

The notebook is run as it is: its own ``SparkSession.builder`` gets the session of the server, as in a hosted notebook.
"""

import difflib
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.readme.notebook import comparable, run_cells, stored_outputs

if __name__ == "__main__":
    spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    os.environ["SPARK_REMOTE"] = sys.argv[1]
    SparkSession.Builder.master = lambda builder, _: builder  # PySpark refuses a master alongside a URL
    notebook = Path(sys.argv[2])
    found, stored = comparable(run_cells(notebook, {})), comparable(stored_outputs(notebook))
    for number, (one, other) in enumerate(zip(found, stored, strict=True), 1):
        if one != other:
            pairs = [text.replace("\\n", "\n").splitlines() for text in (other, one)]
            print(f"cell {number}", *difflib.unified_diff(*pairs, "stored", "found", n=0, lineterm=""), sep="\n")
    print(f"done on {type(spark).__module__}")
    spark.stop()
