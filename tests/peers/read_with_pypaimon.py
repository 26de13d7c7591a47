"""Run in the environment of pypaimon: read tables of a warehouse, write each as an Arrow file, or its error as text.

python read_with_pypaimon.py <warehouse> <output folder> <table> ...
"""

import sys
import traceback
from pathlib import Path

import pyarrow as pa
from pypaimon import CatalogFactory

warehouse, out, *names = sys.argv[1:]
catalog = CatalogFactory.create({"warehouse": warehouse})
for name in names:
    try:
        builder = catalog.get_table(f"db.{name}").new_read_builder()
        rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
        with pa.OSFile(f"{out}/{name}.arrow", "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
    except Exception:  # noqa: BLE001 - whatever a peer says about a table is shown by the test
        Path(out, f"{name}.error").write_text(traceback.format_exc(), encoding="utf-8")
