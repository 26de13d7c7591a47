"""Lets ``df.write.format("paimon").partitionBy("dt").save(path)`` reach the source as the option `partition`.

Spark compares what `partitionBy` says with the partitioning of the source's table before it asks the source anything,
and a Python source has none. So `register` puts a step before PySpark's own ``save``: columns of a writer for Paimon
become the option. Writers of all other formats, and `saveAsTable`, which needs no help, pass through untouched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import OptionError
from paimon_spark.spark.session.pyspark_members import java_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMAT = "paimon"
_MARK = "_knows_paimon"


def install_partition_by(spark: SparkSession) -> None:
    """Let writers of this kind of session (classic or Connect) hand the columns of `partitionBy` to Paimon."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect.readwriter import DataFrameWriter as ConnectWriter

        _wrap(ConnectWriter, _move_connect)
    else:
        from pyspark.sql.readwriter import DataFrameWriter

        _wrap(DataFrameWriter, _move_classic)


def _wrap(writer: Any, move: Callable[[Any], None]) -> None:
    plain = writer.save
    if getattr(plain, _MARK, False):
        return

    @functools.wraps(plain)
    def save(
        self: Any,
        path: str | None = None,
        format: str | None = None,  # noqa: A002 - PySpark's name
        mode: str | None = None,
        partitionBy: str | list[str] | None = None,
        **options: Any,
    ) -> None:
        if format is not None:
            self.format(format)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        move(self)
        plain(self, path, mode=mode, **options)

    setattr(save, _MARK, True)
    writer.save = save


def _move_classic(writer: Any) -> None:
    java = java_writer(writer)
    if str(java.source()).lower() != _FORMAT:
        return
    columns = java.partitioningColumns()
    if columns.isDefined():
        names = columns.get()
        writer.option("partition", listed_columns([names.apply(index) for index in range(names.size())]))
        getattr(java, "partitioningColumns_$eq")(java.bucketColumnNames().empty())
    if java.clusteringColumns().isDefined():
        raise _clustered()


def _move_connect(writer: Any) -> None:
    plan = writer._write
    if str(plan.source or "").lower() != _FORMAT:
        return
    if plan.partitioning_cols:
        writer.option("partition", listed_columns(plan.partitioning_cols))
        plan.partitioning_cols = []
    if plan.clustering_cols:
        raise _clustered()


def listed_columns(columns: Sequence[str]) -> str:
    """Return columns as the option `partition` has them.

    Raises:
        OptionError: one has a comma in its name.
    """
    odd = next((name for name in columns if "," in name), None)
    if odd is not None:
        raise OptionError(f"partitionBy cannot name the column '{odd}': there is a comma in it. Use PaimonTable.create")
    return ",".join(columns)


def _clustered() -> OptionError:
    return OptionError(
        "clusterBy has no meaning for format('paimon'): give the option 'primary-key' for a table sorted by it, "
        "'partition' or .partitionBy(…) for partitions"
    )
