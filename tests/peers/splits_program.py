"""Reads a scan's splits by other libraries, as docs/arrow.md shows it: `… <directory> dask|ray …`, in an environment.

Prints the sum that each library found. Tests run Dask; Ray is tried by hand, for it takes half a minute to install.
"""

import sys
from collections.abc import Callable
from importlib import import_module

import pyarrow as pa

import paimon_spark
from paimon_spark.arrow.scan import ScanSplit


def amount(split: ScanSplit) -> int:
    """Return the sum of a split, wherever it is read."""
    return sum(split.to_arrow()["amount"].to_pylist())


def by_dask(splits: list[ScanSplit]) -> int:
    """Return the sum by processes of Dask."""
    dask = import_module("dask")
    return sum(dask.compute(*(dask.delayed(amount)(split) for split in splits), scheduler="processes"))


def by_ray(splits: list[ScanSplit]) -> int:
    """Return the sum by tasks of Ray."""
    ray = import_module("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    remote = ray.remote(amount)
    found = sum(ray.get([remote.remote(split) for split in splits]))
    ray.shutdown()
    return found


LIBRARIES: dict[str, Callable[[list[ScanSplit]], int]] = {"dask": by_dask, "ray": by_ray}


def main() -> None:
    """Print what each finds."""
    schema = pa.schema([pa.field("id", pa.int64(), False), ("amount", pa.int64())])
    table = paimon_spark.create_table(f"{sys.argv[1]}/shop.db/orders", schema, primary_keys="id", bucket=3)
    table.append(pa.table({"id": range(1000), "amount": [1] * 1000}))
    table.append(pa.table({"id": range(500), "amount": [2] * 500}))
    for name in sys.argv[2:]:
        print(name, LIBRARIES[name](table.scan(where="id < 900").splits()), flush=True)


if __name__ == "__main__":
    main()
