"""Apache Paimon for PySpark 4 in pure Python: read, write and look after Paimon tables without a jar.

Only what is exported here is public. What needs PySpark is imported at its first use, so that the layers below it can
be used, and tested, without it.
"""

from typing import TYPE_CHECKING, Any

from paimon_spark.errors import (
    CatalogServerError,
    CommitConflictError,
    CommitError,
    CommitStateUnknownError,
    CommittedError,
    CorruptTableError,
    DataError,
    OptionError,
    PaimonError,
    SchemaChangeError,
    SchemaError,
    SchemaMismatchError,
    SnapshotNotFoundError,
    StorageError,
    TableBusyError,
    TableNotFoundError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from paimon_spark.arrow.table import create_table, open_table
    from paimon_spark.commit.row_counts import RowCounts
    from paimon_spark.spark.register_catalog import register, register_catalog
    from paimon_spark.spark.table.paimon_table import PaimonTable
    from paimon_spark.spark.text.statement import sql

__version__ = "0.1.0"
_PYSPARK = 4

__all__ = [
    "CatalogServerError",
    "CommitConflictError",
    "CommitError",
    "CommitStateUnknownError",
    "CommittedError",
    "CorruptTableError",
    "DataError",
    "OptionError",
    "PaimonError",
    "PaimonTable",
    "RowCounts",
    "SchemaChangeError",
    "SchemaError",
    "SchemaMismatchError",
    "SnapshotNotFoundError",
    "StorageError",
    "TableBusyError",
    "TableNotFoundError",
    "UnsupportedError",
    "create_table",
    "open_table",
    "register",
    "register_catalog",
    "sql",
]


def _check_pyspark() -> None:
    """Refuse a PySpark that is not there, or has no data sources in Python, before errors about a missing module."""
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    try:
        found = version("pyspark")
    except PackageNotFoundError:
        if find_spec("pyspark") is None:
            raise UnsupportedError(
                f"This needs PySpark, which is not installed: pip install 'pyspark>={_PYSPARK}'. "
                "open_table works without Spark"
            ) from None
        return  # another distribution has it, such as pyspark-client
    if int(found.partition(".")[0]) < _PYSPARK:
        raise UnsupportedError(
            f"paimon_spark needs PySpark {_PYSPARK}, and this is PySpark {found}: pip install 'pyspark>={_PYSPARK}'. "
            "open_table works without Spark"
        )


def __getattr__(name: str) -> Any:
    if name in ("create_table", "open_table"):
        from paimon_spark.arrow import table

        return getattr(table, name)
    if name == "RowCounts":
        from paimon_spark.commit.row_counts import RowCounts

        return RowCounts
    if name in ("PaimonTable", "register", "register_catalog", "sql"):
        _check_pyspark()
    if name == "PaimonTable":
        from paimon_spark.spark.table.paimon_table import PaimonTable

        return PaimonTable
    if name in ("register", "register_catalog"):
        from paimon_spark.spark import register_catalog

        return getattr(register_catalog, name)
    if name == "sql":
        from paimon_spark.spark.text.statement import sql

        return sql
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
