"""Reads and writes tables with one library: `… open_table|pypaimon|pypaimon-rust <warehouse>`, in its environment.

Each line of its input names a case, which is run once; the answer is a line of JSON: the seconds of the clock and those
of the process's cores, the rows that were read, or the error of a case that the library cannot do.
"""

import json
import sys
import time
from pathlib import Path

import pyarrow as pa

library, warehouse = sys.argv[1], sys.argv[2]
if library == "open_table":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import paimon_spark
elif library == "pypaimon":
    from pypaimon import CatalogFactory

    catalog = CatalogFactory.create({"warehouse": warehouse})
else:
    from pypaimon_rust.datafusion import PaimonCatalog

    catalog = PaimonCatalog({"warehouse": warehouse})


def read(name, columns=None, above=None):
    """Return the rows of a table."""
    if library == "open_table":
        table = paimon_spark.open_table(f"{warehouse}/db.db/{name}")
        return table.scan(columns, None if above is None else f"id > {above}").to_arrow()
    builder = catalog.get_table(f"db.{name}").new_read_builder()
    if columns is not None:
        builder = builder.with_projection(columns) or builder
    if above is not None and library == "pypaimon":
        builder = builder.with_filter(builder.new_predicate_builder().greater_than("id", above)) or builder
    elif above is not None:
        builder = builder.with_filter({"method": "greaterThan", "field": "id", "literals": [above]}) or builder
    splits = builder.new_scan().plan().splits()
    if library == "pypaimon":
        return builder.new_read().to_arrow(splits)
    return pa.Table.from_batches(builder.new_read().read(splits))


def write(name):
    """Write the rows of a case to a table of this library's own once more."""
    rows = rows_of[name.partition("_")[2].partition("_")[2]]
    if library == "open_table":
        return paimon_spark.open_table(f"{warehouse}/db.db/{name}_{library}").append(rows)
    builder = catalog.get_table(f"db.{name}_{library}").new_batch_write_builder()
    writer, committer = builder.new_write(), builder.new_commit()
    for part in [rows] if library == "pypaimon" else rows.to_batches():
        writer.write_arrow(part)
    committer.commit(writer.prepare_commit())
    writer.close()
    committer.close()
    return rows


rows_of = {
    end: pa.ipc.open_file(f"{warehouse}/rows{end and '_'}{end}.arrow").read_all() for end in ("", "thousand", "one")
}
CASES = {
    "whole": lambda: read("append"),
    "projected": lambda: read("append", ["id", "name"]),
    "filtered": lambda: read("append", None, 900_000),
    "wide": lambda: read("wide"),
    "merged": lambda: read("keyed"),
    **{
        name: lambda name=name: write(f"to_{name}")
        for name in ("append", "append_thousand", "append_one", "upsert", "upsert_thousand", "upsert_one")
    },
}
for line in sys.stdin:
    try:
        begin, cores = time.perf_counter(), time.process_time()
        found = CASES[line.strip()]()
        taken = {"seconds": time.perf_counter() - begin, "cores": time.process_time() - cores}
        answer = {**taken, "rows": getattr(found, "num_rows", None)}
        del found
    except Exception as error:  # noqa: BLE001 - what a peer cannot do is shown
        answer = {"error": f"{type(error).__name__}: {error}"[:200]}
    print(json.dumps(answer), flush=True)
