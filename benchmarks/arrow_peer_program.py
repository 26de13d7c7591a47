"""Reads and writes tables with a peer, in its environment: `… pypaimon|pypaimon-rust <warehouse> <times>`.

Prints the best seconds of each case as JSON; a case that the peer cannot do has its error instead.
"""

import json
import sys
import time

import pyarrow as pa

peer, warehouse, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
if peer == "pypaimon":
    from pypaimon import CatalogFactory

    catalog = CatalogFactory.create({"warehouse": warehouse})
else:
    from pypaimon_rust.datafusion import PaimonCatalog

    catalog = PaimonCatalog({"warehouse": warehouse})


def read(name, columns=None, above=None):
    """Return the rows of a table."""
    builder = catalog.get_table(f"db.{name}").new_read_builder()
    if columns is not None:
        builder = builder.with_projection(columns) or builder
    if above is not None:
        predicate = builder.new_predicate_builder().greater_than("id", above)
        builder = builder.with_filter(predicate) or builder
    splits = builder.new_scan().plan().splits()
    if peer == "pypaimon":
        return builder.new_read().to_arrow(splits)
    return pa.Table.from_batches(builder.new_read().read(splits))


def append(name):
    """Write the rows of a table to it once more."""
    table = catalog.get_table(f"db.{name}")
    builder = table.new_batch_write_builder()
    writer, committer = builder.new_write(), builder.new_commit()
    for part in [rows[name]] if peer == "pypaimon" else rows[name].to_batches():
        writer.write_arrow(part)
    committer.commit(writer.prepare_commit())
    writer.close()
    committer.close()


rows = {}
CASES = {
    "whole": lambda: read("append"),
    "projected": lambda: read("append", ["id", "name"]),
    "filtered": lambda: read("append", None, 900_000),
    "wide": lambda: read("wide"),
    "merged": lambda: read("keyed"),
    "append": lambda: append("to_append"),
    "upsert": lambda: append("to_upsert"),
}
found = {}
for case, run in CASES.items():
    try:
        if case in ("append", "upsert"):
            rows[f"to_{case}"] = pa.ipc.open_file(f"{warehouse}/rows.arrow").read_all()
        seconds = []
        for _ in range(times):
            begin = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - begin)
        found[case] = min(seconds)
    except Exception as error:  # noqa: BLE001 - what a peer cannot do is shown
        found[case] = f"{type(error).__name__}: {error}"[:200]
print(json.dumps(found))
