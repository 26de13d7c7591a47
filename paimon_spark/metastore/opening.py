"""Which metastore the options of a catalog name, and which entry of it a table directory has."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.metastore.metastore import LockedDirectory, Metastore, TableHome, option_value
from paimon_spark.metastore.rest_table import SCHEME, catalog_root
from paimon_spark.options import reaching_options

KINDS = ("filesystem", "hive", "jdbc", "rest")
"""Values of the catalog option ``metastore`` that are supported."""


_prepared: set[tuple[str, Metastore]] = set()
"""Those that this process has prepared for a table that is reached by its path; a catalog that is opened prepares."""


def check_kind(kind: str) -> None:
    """Refuse a value of the catalog option ``metastore``.

    Raises:
        UnsupportedError: it is none of `KINDS`.
    """
    if kind.strip().lower() not in KINDS:
        raise UnsupportedError(
            f"Catalogs with 'metastore' = '{kind}' are not supported: a catalog here is a directory ('filesystem'), "
            "keeps its names in a database ('jdbc') or in Hive's metastore ('hive'), or is a server ('rest'), and what "
            "is written alongside another metastore would not be known to it. Leave 'metastore' out and name the "
            "directory as the warehouse, or use the official connector."
        )


def kind_of(options: Mapping[str, str]) -> str:
    """The value of ``metastore``; empty where it is not set."""
    return options.get("metastore", "").strip().lower()


def is_directory(options: Mapping[str, str]) -> bool:
    """Whether a catalog is a directory, which knows its tables by itself."""
    return kind_of(options) in ("", "filesystem")


def lock_type(options: Mapping[str, str]) -> str:
    """The value of ``lock.type``, which may be none that there is; empty where it is not set."""
    return options.get("lock.type", "").strip().lower()


def root_of(warehouse: str, options: Mapping[str, str]) -> str:
    """The path of a catalog, below which are the paths of its tables: its warehouse, or ``rest://<warehouse>``."""
    is_name = kind_of(options) == "rest" and not warehouse.startswith(SCHEME)
    return catalog_root(warehouse) if is_name else warehouse.rstrip("/") or "/"


def metastore_of(options: Mapping[str, str], *, opens: bool = False) -> Metastore | None:
    """Return the metastore that the options of a catalog name; None for a catalog that is a directory.

    Args:
        options: of the catalog, ``warehouse`` among them.
        opens: the catalog is opened: nothing that this process knows of it counts.

    Raises:
        UnsupportedError: a kind of metastore that is not supported.
        OptionError: an option is missing or cannot be used.
        CatalogServerError: the catalog's server gives no configuration.
    """
    kind = kind_of(options)
    if kind:
        check_kind(kind)
    if kind == "rest":
        from paimon_spark.metastore.rest import RestMetastore  # whoever looks up `register` does without it

        return RestMetastore.of(reaching_options(options), again=opens)
    if kind == "jdbc":
        from paimon_spark.metastore.jdbc import JdbcMetastore  # so do catalogs that are directories

        return JdbcMetastore.of(options)
    if kind == "hive":
        from paimon_spark.metastore.hive import HiveMetastore  # as above

        return HiveMetastore.of(options)
    return None


def lock_of(options: Mapping[str, str]) -> str:
    """Whose lock commits to the tables of a directory take (`lock.type`); empty for none, and for other catalogs.

    Java: a directory has no lock, and with a `lock.type` each commit fails.

    Raises:
        OptionError: there is no lock of this type.
        UnsupportedError: the catalog has no such lock.
    """
    kind = kind_of(options)
    lock = option_value(options, "lock.type") or ""
    if kind == "rest" and lock:
        raise UnsupportedError(f"'lock.type' = '{lock}': a REST catalog has no lock, its server decides: remove it.")
    if kind in ("jdbc", "hive") and lock not in ("", kind):
        raise UnsupportedError(
            f"'lock.type' = '{lock}' is not the lock of a catalog with 'metastore' = '{kind}', which has its own: "
            "remove it."
        )
    if not is_directory(options):
        return ""
    enabled = option_value(options, "lock.enabled")
    if enabled and not lock:
        raise UnsupportedError(
            "'lock.enabled' = 'true': a directory has no lock of its own. Add 'lock.type' = 'jdbc' or 'hive' with the "
            "'uri' of the catalog whose lock is meant, or remove it."
        )
    return "" if enabled is False else lock


def locks_of(options: Mapping[str, str]) -> Metastore | None:
    """Return the metastore whose locks alone the catalog of a directory takes; None for none.

    Raises:
        OptionError: there is no such lock, or an option of it is missing or cannot be used.
        UnsupportedError: the catalog has no such lock.
    """
    lock = lock_of(options)
    alone = {"metastore": lock, "lock.enabled": "true", "format-table.enabled": "false"}
    return metastore_of({**options, **alone}) if lock else None


def home_of(options: Mapping[str, str], root: str) -> TableHome | None:
    """Return the metastore's entry of the table in a directory; None where the directory is in no such warehouse.

    Args:
        options: of the catalog, ``warehouse`` among them.
        root: the table directory.
    """
    warehouse = options.get("warehouse", "").rstrip("/")
    above = root_of(warehouse, options) if warehouse else ""
    if root.startswith(SCHEME) and not (above and root.startswith(f"{above}/")):
        raise OptionError(
            f"{root} is a table of a REST catalog: give the options of that catalog with it, 'metastore' = 'rest', "
            "'uri', 'warehouse' and 'token.provider'."
        )
    if warehouse and kind_of(options):
        check_kind(kind_of(options))
    locks = locks_of(options) if warehouse else None
    metastore = (locks or metastore_of(options)) if warehouse and root.startswith(f"{above}/") else None
    folder, _, table = root[len(above) + 1 :].partition("/")
    if metastore is None or not folder.endswith(".db") or not table or "/" in table:
        return None
    if (kind_of(options), metastore) not in _prepared:
        metastore.prepare(locks_only=locks is not None)
        _prepared.add((kind_of(options), metastore))
    database = folder.removesuffix(".db")
    return metastore.home(database, table) if locks is None else LockedDirectory(locks, database, table)
