"""Runs a notebook on Spark Connect and compares its outputs with those stored: `… sc://host:port notebook.ipynb`.

The notebook is run as it is: ``SPARK_REMOTE`` gives its ``SparkSession.builder`` the server, as in a hosted notebook.
"""

import difflib
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.readme.notebook import comparable, run_cells, stored_outputs

if __name__ == "__main__":
    os.environ["SPARK_REMOTE"] = sys.argv[1]
    notebook = Path(sys.argv[2])
    names: dict[str, Any] = {}
    found, stored = comparable(run_cells(notebook, names)), comparable(stored_outputs(notebook))
    for number, (one, other) in enumerate(zip(found, stored, strict=True), 1):
        if one != other:
            pairs = [text.replace("\\n", "\n").splitlines() for text in (other, one)]
            print(f"cell {number}", *difflib.unified_diff(*pairs, "stored", "found", n=0, lineterm=""), sep="\n")
    print(f"done on {type(names['spark']).__module__}")
    names["spark"].stop()
