"""Lets ``partitionBy`` and every mode of ``df.write.format("paimon").save(path)`` reach the source.

Spark compares what `partitionBy` says with the partitioning of the source's table before it asks the source anything,
and a Python source has none. So `register` puts a step before PySpark's own ``save``: columns of a writer for Paimon
become the option. Writers of all other formats, and `saveAsTable`, which needs no help, pass through untouched.

Nor does Spark let a Python source be saved to but by `append` and `overwrite`. In its default mode, `error` and
`errorifexists`, a path with a table is an error, as of Spark's own sources; `ignore` does nothing there. Where there is
no table the three are an append, which makes it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import OptionError
from paimon_spark.spark.session.pyspark_members import java_writer, writer_options
from paimon_spark.spark.session.session_settings import is_connect, is_paimon_format, settings_option
from paimon_spark.spark.source.write_target import path_already_exists, saved_table_exists

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MARK = "_knows_paimon"
_DEFAULT = "errorifexists"
_ONLY_NEW = ("default", "error", _DEFAULT, "ignore")
"""Modes that never touch a table that is there."""


def install_partition_by(spark: SparkSession) -> None:
    """Let writers of this kind of session (classic or Connect) hand the columns of `partitionBy` to Paimon."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect.readwriter import DataFrameWriter as ConnectWriter

        _wrap(ConnectWriter, _move_connect, lambda writer: writer._write.mode or _DEFAULT)
    else:
        from pyspark.sql.readwriter import DataFrameWriter

        _wrap(DataFrameWriter, _move_classic, lambda writer: str(java_writer(writer).curmode().name()))


def _wrap(writer: Any, move: Callable[[Any], bool], mode_of: Callable[[Any], str]) -> None:
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
        __tracebackhide__ = True
        if format is not None:
            self.format(format)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        if not move(self):
            plain(self, path, mode=mode, **options)
            return
        if options:
            self.options(**options)
        chosen = str(mode or mode_of(self)).lower()
        if chosen in _ONLY_NEW:
            where = path or _path_of(self)
            if where is not None and saved_table_exists(_given(self, where)):
                if chosen == "ignore":
                    return
                raise path_already_exists(where)
            mode = "append"
        plain(self, path, mode=mode)

    setattr(save, _MARK, True)
    writer.save = save


def _given(writer: Any, path: str) -> dict[str, str]:
    """The options of a save with those of its session."""
    spark = writer._spark
    return {**settings_option(spark), **_options_of(writer), "path": path}


def _path_of(writer: Any) -> str | None:
    return next((value for key, value in _options_of(writer).items() if key.lower() == "path"), None)


def _options_of(writer: Any) -> dict[str, str]:
    if is_connect(writer._spark):
        return {key: str(value) for key, value in writer._write.options.items()}
    return writer_options(writer)


def _move_classic(writer: Any) -> bool:
    """Move what `partitionBy` said; return whether the writer is Paimon's."""
    java = java_writer(writer)
    if not is_paimon_format(str(java.source())):
        return False
    columns = java.partitioningColumns()
    if columns.isDefined():
        names = columns.get()
        writer.option("partition", listed_columns([names.apply(index) for index in range(names.size())]))
        getattr(java, "partitioningColumns_$eq")(java.bucketColumnNames().empty())
    if java.clusteringColumns().isDefined():
        raise _clustered()
    return True


def _move_connect(writer: Any) -> bool:
    plan = writer._write
    if not is_paimon_format(plan.source):
        return False
    if plan.partitioning_cols:
        writer.option("partition", listed_columns(plan.partitioning_cols))
        plan.partitioning_cols = []
    if plan.clustering_cols:
        raise _clustered()
    return True


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
