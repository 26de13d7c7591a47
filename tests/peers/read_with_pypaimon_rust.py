"""Run in the environment of pypaimon-rust: read tables, write each as an Arrow file, or its error as text.

python read_with_pypaimon_rust.py <warehouse> <output folder> <table> ...
"""

import sys
import traceback
from pathlib import Path

import pyarrow as pa
from pypaimon_rust.datafusion import PaimonCatalog

warehouse, out, *names = sys.argv[1:]
catalog = PaimonCatalog({"warehouse": warehouse})
for name in names:
    try:
        builder = catalog.get_table(f"db.{name}").new_read_builder()
        batches = builder.new_read().read(builder.new_scan().plan().splits())
        rows = pa.Table.from_batches(batches)
        with pa.OSFile(f"{out}/{name}.arrow", "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
    except Exception:  # noqa: BLE001 - whatever a peer says about a table is shown by the test
        Path(out, f"{name}.error").write_text(traceback.format_exc(), encoding="utf-8")
