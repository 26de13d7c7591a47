"""The table formats that are compared, each in a session of its own on the same Spark: what differs between them.

All answer one SQL. A peer says how a table is made of a query, how a fresh copy of it is had, and how rows are merged
into it. Parquet has no MERGE: there the merged rows are joined and written anew, the least that any format can do.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

NAMES = ("ours", "ours, keyed", "official", "official, keyed", "Delta", "Parquet")
"""``keyed``: a Paimon table with a primary key and four buckets; else all tables are without keys."""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "3g",
}
_EXTENSIONS = "spark.sql.extensions"
_CHECKPOINTS = "spark.databricks.delta.properties.defaults.checkpointInterval"
"""Delta 4.1 and 4.2 cannot read their checkpoints on PySpark 4.1.4, which has another Parquet converter."""
_STATE_PARTITIONS = "spark.databricks.delta.snapshotPartitions"
"""Tasks of Delta's jobs over its log: 50 by default, which is for clusters."""
_BUCKETS = 4


@dataclass(frozen=True)
class Merge:
    """A MERGE by equal keys.

    Attributes:
        source: a view.
        keys: columns of both sides that must be equal.
        clauses: what follows ON, in SQL.
        inserts: new rows are inserted.
        matched: what becomes of rows that the source has: "keep", "update" or "delete".
    """

    source: str
    keys: tuple[str, ...]
    clauses: str
    inserts: bool
    matched: str


def session(name: str, folder: Path, jars: Sequence[str] = ()) -> Any:
    """Start the session of a peer, whose tables go below a folder."""
    from pyspark.sql import SparkSession

    settings = dict(SETTINGS)
    if jars:
        settings["spark.jars"] = ",".join(jars)
    if name.startswith("official"):
        settings[_EXTENSIONS] = "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions"
        settings["spark.sql.catalog.c"] = "org.apache.paimon.spark.SparkCatalog"
        settings["spark.sql.catalog.c.warehouse"] = str(folder)
    if name == "Delta":
        settings[_EXTENSIONS] = "io.delta.sql.DeltaSparkSessionExtension"
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        settings[_CHECKPOINTS] = "1000"
        settings[_STATE_PARTITIONS] = settings["spark.sql.shuffle.partitions"]
    settings["spark.sql.warehouse.dir"] = str(folder / "spark")
    builder = SparkSession.builder.master("local[2]").appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if name.startswith("ours"):
        import paimon_spark

        paimon_spark.register(spark)
        paimon_spark.register_catalog(spark, "c", warehouse=str(folder))
    return spark


@dataclass
class Peer:
    """A session with one format, and a folder for its tables."""

    name: str
    folder: Path
    spark: Any
    copies: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Let plain names of tables be this peer's."""
        if self.is_paimon:
            self.spark.sql("CREATE DATABASE IF NOT EXISTS c.d")
        self.spark.sql(f"USE {'c.d' if self.is_paimon else 'spark_catalog.default'}")

    @property
    def is_paimon(self) -> bool:
        """Whether the tables are Paimon's."""
        return self.name.startswith(("ours", "official"))

    def create(self, table: str, query: str, keys: Sequence[str] = (), partition: str = "") -> None:
        """Make a table of the rows of a query.

        Args:
            table: its name.
            query: of which it has the columns and rows.
            keys: the primary key, where tables of this peer have one.
            partition: a column by which it is partitioned; "" for none.
        """
        parted = f"PARTITIONED BY ({partition})" if partition else ""
        if not self.is_paimon:
            source = "delta" if self.name == "Delta" else "parquet"
            location = f"LOCATION '{self.folder / table}'"
            self.spark.sql(f"CREATE TABLE {table} USING {source} {parted} {location} AS {query}")
            return
        keyed = keys and self.name.endswith("keyed")
        properties = f"TBLPROPERTIES ('primary-key' = '{','.join(keys)}', 'bucket' = '{_BUCKETS}')" if keyed else ""
        self.spark.sql(f"CREATE TABLE c.d.{table} {parted} {properties} AS {query}")

    def copy(self, table: str) -> str:
        """Return the name in SQL of a fresh copy of a table."""
        self.copies += 1
        folder = self.folder / "d.db" if self.is_paimon else self.folder
        target = folder / f"copy{self.copies}"
        shutil.copytree(folder / table, target)
        if self.is_paimon:
            return f"c.d.copy{self.copies}"
        return f"{'delta' if self.name == 'Delta' else 'parquet'}.`{target}`"

    def forget(self, copy: str) -> None:
        """Delete a copy, and what a merge of it has made."""
        for made in self.folder.glob(f"**/copy{self.copies}*"):
            shutil.rmtree(made)

    def merge(self, target: str, merge: Merge) -> str:
        """Merge rows into a table; return the name of the table that has them then."""
        if self.name != "Parquet":
            on = " AND ".join(f"t.{key} = s.{key}" for key in merge.keys)
            self.spark.sql(f"MERGE INTO {target} t USING {merge.source} s ON {on} {merge.clauses}")
            return target
        old, new = self.spark.table(target), self.spark.table(merge.source)
        path = target.removeprefix("parquet.`").rstrip("`")
        kept = old.join(new, list(merge.keys), "left_anti") if merge.matched != "keep" else old
        rows = kept if merge.matched != "update" else kept.unionByName(new.join(old, list(merge.keys), "left_semi"))
        if merge.inserts:
            rows = rows.unionByName(new.join(old, list(merge.keys), "left_anti"))
        rows.write.parquet(f"{path}-merged")
        return f"parquet.`{path}-merged`"
