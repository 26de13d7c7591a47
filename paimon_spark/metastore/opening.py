"""Which metastore the options of a catalog name, and which entry of it a table directory has."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_spark.errors import UnsupportedError
from paimon_spark.metastore.jdbc import JdbcMetastore
from paimon_spark.metastore.metastore import Metastore, TableHome

KINDS = ("filesystem", "jdbc")
"""Values of the catalog option ``metastore`` that are supported."""


_prepared: set[Metastore] = set()
"""Those that this process has prepared for a table that is reached by its path; a catalog that is opened prepares."""


def check_kind(kind: str) -> None:
    """Refuse a value of the catalog option ``metastore``.

    Raises:
        UnsupportedError: it is none of `KINDS`.
    """
    if kind.strip().lower() not in KINDS:
        raise UnsupportedError(
            f"Catalogs with 'metastore' = '{kind}' are not supported: a catalog here is a directory ('filesystem') or "
            "keeps its names in a database ('jdbc'), and what is written beside another metastore would not be known "
            "to it. Leave 'metastore' out and name the directory as the warehouse, or use the official connector."
        )


def metastore_of(options: Mapping[str, str]) -> Metastore | None:
    """Return the metastore that the options of a catalog name; None for a catalog that is a directory.

    Raises:
        UnsupportedError: a kind of metastore that is not supported.
        OptionError: an option is missing or cannot be used.
    """
    kind = options.get("metastore", "").strip().lower()
    if kind:
        check_kind(kind)
    if kind == "jdbc":
        return JdbcMetastore.of(options)
    return None


def home_of(options: Mapping[str, str], root: str) -> TableHome | None:
    """Return the metastore's entry of the table in a directory; None where the directory is in no such warehouse.

    Args:
        options: of the catalog, ``warehouse`` among them.
        root: the table directory.
    """
    warehouse = options.get("warehouse", "").rstrip("/")
    metastore = metastore_of(options) if warehouse else None
    if metastore is None or not root.startswith(f"{warehouse}/"):
        return None
    database, _, table = root[len(warehouse) + 1 :].partition("/")
    if not database.endswith(".db") or not table or "/" in table:
        return None
    if metastore not in _prepared:
        metastore.prepare()
        _prepared.add(metastore)
    return TableHome(metastore, database.removesuffix(".db"), table)
