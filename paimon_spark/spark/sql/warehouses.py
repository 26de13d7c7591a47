"""The warehouses that statements of a session can name, and the current catalog and database.

Kept in this process alongside the session, since Spark Connect lets Python add no catalog to it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException

from paimon_spark.errors import PaimonError, SchemaError, TableNotFoundError, UnsupportedError
from paimon_spark.spark.session.hive_address import with_hive_address
from paimon_spark.spark.session.pyspark_members import plain
from paimon_spark.spark.session.session_settings import catalogs_of
from paimon_spark.spark.statements.cursor import split_name
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.storage.store_options import store_of
from paimon_spark.table import paths
from paimon_spark.table.catalog_cache import CatalogCache
from paimon_spark.table.filesystem_catalog import (
    DEFAULT_DATABASE,
    SYSTEM_DATABASE,
    SYSTEM_DATABASE_TABLES,
    FilesystemCatalog,
    check_catalog_options,
)
from paimon_spark.table.metastore_catalog import open_catalog
from paimon_spark.table.paths import is_path_name, is_plain_name
from paimon_spark.table.table import FileStoreTable, load_table, table_exists

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_CATALOG = "paimon"
SPARK_CATALOG = "spark_catalog"


@dataclass(frozen=True)
class Warehouses:
    """The catalogs that a session knows, and the current catalog and database."""

    catalogs: Mapping[str, FilesystemCatalog] = field(default_factory=dict)
    catalog: str = DEFAULT_CATALOG
    database: str = DEFAULT_DATABASE
    own_statements: bool = False
    """Whether the session's own methods (``spark.sql``, ``spark.table``, …) know the catalogs, on Spark Connect."""
    of_spark: frozenset[str] = frozenset()
    """Catalogs of a classic session, whose tables ``spark.sql`` finds."""

    def means(self, name: str) -> bool:
        """Whether a name that leads others is that of a catalog; the default catalog's, though it is not known yet."""
        return name in self.catalogs or (name == DEFAULT_CATALOG and name not in self.of_spark)

    def default_database(self, catalog: str) -> str:
        """The database of a catalog in which names without one are looked up at first."""
        found = self.catalogs.get(catalog)
        return DEFAULT_DATABASE if found is None else found.default_database

    @property
    def current(self) -> FilesystemCatalog | None:
        """The current catalog; None where it is none of ours."""
        return self.catalogs.get(self.catalog)


@dataclass(frozen=True)
class TableName:
    """A table that a statement names, whether it is there or not."""

    catalog_name: str
    database: str
    """Empty for a table that is named by its path."""
    table: str
    path: str
    options: Mapping[str, str] = field(repr=False)
    """Of the store."""
    cache: CatalogCache | None = None
    """What its catalog keeps of tables."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The whole name."""
        return (self.catalog_name, *([self.database] if self.database else []), self.table)

    @cached_property
    def place(self) -> tuple[str, str]:
        """The store and the path: two stores may have one path."""
        return (store_of(self.path, self.options), self.path)

    @property
    def is_path(self) -> bool:
        """Whether the table is named by its path."""
        return not self.database

    @property
    def system_table(self) -> str | None:
        """The system table that the name means (``t$files``); None for a table itself."""
        return self.named.system_table

    @property
    def is_of_catalog(self) -> bool:
        """Whether the name means a system table of the whole catalog (``sys.tables``)."""
        return self.database == SYSTEM_DATABASE and self.table.lower() in SYSTEM_DATABASE_TABLES

    @cached_property
    def named(self) -> paths.TableName:
        """What its path names."""
        return paths.parse_table_path(self.path)

    def exists(self) -> bool:
        """Whether there is such a table (or the table of such a branch or system table)."""
        if self.is_of_catalog:
            return True
        try:
            return table_exists(self.named, options=self.options)
        except SchemaError:
            return False

    def load(self) -> FileStoreTable:
        """Open the table.

        Raises:
            AnalysisException: there is none (TABLE_OR_VIEW_NOT_FOUND).
            UnsupportedError: it is a system table of the catalog, which queries read.
        """
        if self.is_of_catalog:
            raise UnsupportedError(f"{SYSTEM_DATABASE}.{self.table} is a system table, which is for reading")
        try:
            return load_table(self.named, options=self.options, cache=self.cache)
        except (TableNotFoundError, SchemaError):
            raise table_not_found(self.parts) from None


_states: WeakKeyDictionary[Any, Warehouses] = WeakKeyDictionary()
_lock = threading.Lock()


def warehouses_of(spark: SparkSession) -> Warehouses:
    """Return the warehouses of a session."""
    with _lock:
        return replace(_states.get(spark, Warehouses()), of_spark=frozenset(catalogs_of(spark)))


def add_warehouse(
    spark: SparkSession, name: str, warehouse: str, options: Mapping[str, str], *, own_statements: bool = False
) -> None:
    """Let statements of a session name a warehouse.

    Args:
        spark: the session.
        name: of the catalog.
        warehouse: directory of the databases.
        options: of the store.
        own_statements: the session's own methods are to know it, besides `paimon_spark.sql`. At first the current
            catalog then stays Spark's.

    Raises:
        UnsupportedError: an option asks for another kind of catalog than a directory.
        OptionError: an option is unknown, or is one of tables.
    """
    given = with_hive_address(spark, options)
    check_catalog_options(given)
    catalog = open_catalog(warehouse, given)
    catalog.make_default_database()
    with _lock:
        known = _states.get(spark, Warehouses())
        known = replace(known, catalogs={**known.catalogs, name: catalog})
        if known.catalog == name and known.database == DEFAULT_DATABASE:
            known = replace(known, database=catalog.default_database)
        if own_statements and not known.own_statements:
            fresh = len(known.catalogs) == 1
            known = replace(known, own_statements=True, catalog=SPARK_CATALOG if fresh else known.catalog)
        _states[spark] = known


def is_registered_path(path: str) -> bool:
    """Whether a path is below a warehouse that statements of a session can name."""
    with _lock:
        catalogs = [catalog for known in _states.values() for catalog in known.catalogs.values()]
    return any(path.startswith(f"{catalog.warehouse.rstrip('/')}/") for catalog in catalogs)


def named_table(spark: SparkSession, name: str) -> TableName | None:
    """Return the table that a name means to a session's current catalog and database; None for one of Spark's.

    Raises:
        ParseException: it is no name.
    """
    known = warehouses_of(spark)
    catalogs = {**known.catalogs, **catalogs_of(spark)}
    current = spark.catalog.currentCatalog()
    if current in catalogs:
        known = replace(known, catalog=current, database=spark.catalog.currentDatabase())
    parts = split_name(name)
    if len(parts) > 1 and parts[0] == DEFAULT_CATALOG and DEFAULT_CATALOG not in catalogs:
        return None
    try:
        return resolve(replace(known, catalogs=catalogs), parts)
    except AnalysisException:
        return None


def unknown_table(spark: SparkSession, name: str) -> TableNotFoundError:
    """The error of a name that means no table of ours."""
    catalogs = sorted({*warehouses_of(spark).catalogs, *catalogs_of(spark)})
    if not catalogs:
        return TableNotFoundError(
            f"There is no Paimon table {name}: this session has no catalog of Paimon's. Call "
            f'paimon_spark.register_catalog(spark, "{DEFAULT_CATALOG}", warehouse=…), or name the table by its path'
        )
    return TableNotFoundError(
        f"There is no Paimon table {name}. The catalogs of this session are {', '.join(catalogs)}; a name is "
        "<catalog>.<database>.<table>"
    )


def use(spark: SparkSession, catalog: str, database: str | None = None) -> None:
    """Set the current catalog and database of a session."""
    with _lock:
        known = _states.get(spark, Warehouses())
        _states[spark] = replace(known, catalog=catalog, database=database or known.default_database(catalog))


def resolve(known: Warehouses, parts: Sequence[str]) -> TableName | None:
    """Return the Paimon table that a name means; None for a name that can only be Spark's.

    Raises:
        SchemaError: a name has a slash where none can be, or is a path that is not whole.
        AnalysisException: a catalog of ours is named, but no table of one can be (TABLE_OR_VIEW_NOT_FOUND).
        PaimonError: the default catalog is named, and its warehouse is not known.
    """
    if len(parts) == 2 and is_path_name(parts[1]) and (parts[0] in known.catalogs or parts[0] == DEFAULT_CATALOG):
        named = known.catalogs.get(parts[0])
        return TableName(parts[0], "", parts[1], parts[1], {} if named is None else named.options)
    if len(parts) > 1 and known.means(parts[0]):
        catalog = known.catalogs.get(parts[0])
        if catalog is not None:
            if len(parts) != 3:
                raise analysis_error(
                    "TABLE_OR_VIEW_NOT_FOUND",
                    f"The table or view {quoted(parts)} cannot be found: a table of a catalog is named by three parts, "
                    f"{parts[0]}.database.table.",
                )
            _check_no_path(parts[1])
            _check_no_path(parts[2])
            return _named(parts[0], catalog, parts[1], parts[2])
        if len(parts) == 3:
            raise unknown_warehouse(parts[0])
    current = known.current
    if current is None or len(parts) > 2:
        return None
    database = parts[0] if len(parts) == 2 else known.database
    return _named(known.catalog, current, database, parts[-1])


def is_explicit(known: Warehouses, parts: Sequence[str]) -> bool:
    """Whether a name starts with one of our catalogs, so that Spark cannot know it."""
    return len(parts) > 1 and known.means(parts[0])


def resolve_text(known: Warehouses, text: str, catalog: str) -> TableName:
    """The table that an argument of a procedure names; a name without a catalog is one of `catalog`.

    Raises:
        AnalysisException: there can be no such table.
    """
    parts = split_name(text)
    if len(parts) == 1 and "/" in parts[0]:
        parts = (catalog, parts[0])
    elsewhere = replace(known, catalog=catalog, database=known.default_database(catalog))
    here = known if known.catalog == catalog else elsewhere
    name = resolve(here, parts)
    if name is None:
        raise table_not_found(parts)
    return name


def _check_no_path(name: str) -> None:
    """Refuse a path in place of a name.

    Raises:
        SchemaError: the name has a slash.
    """
    if is_path_name(name):
        raise SchemaError(f"'{name}' cannot be the name of a table in a database: write {DEFAULT_CATALOG}.`{name}`.")


def _named(catalog_name: str, catalog: FilesystemCatalog, database: str, table: str) -> TableName | None:
    if not is_plain_name(database) or not is_plain_name(table):
        return None
    return TableName(catalog_name, database, table, catalog.table_path(database, table), catalog.options, catalog.cache)


def table_not_found(parts: Sequence[str]) -> AnalysisException:
    """Spark's error for a name that means nothing."""
    return analysis_error(
        "TABLE_OR_VIEW_NOT_FOUND",
        f"The table or view {quoted(parts)} cannot be found. Verify the spelling and correctness of the schema and "
        "catalog.",
    )


def schema_not_found(parts: Sequence[str]) -> AnalysisException:
    """Spark's error for a database that is not there."""
    return analysis_error("SCHEMA_NOT_FOUND", f"The schema {quoted(parts)} cannot be found.")


def unknown_warehouse(catalog: str) -> PaimonError:
    """The error for a catalog whose warehouse is not known."""
    return PaimonError(
        f"The warehouse of catalog {catalog} is not known: name it once, as in paimon_spark.sql(spark, statement, "
        f'warehouse="/data/wh", catalog="{catalog}"), or name the table by its path, as in {catalog}.`/data/wh/db.db/t`'
    )


def analysis_error(condition: str, message: str) -> AnalysisException:
    """An error of Spark's own kind, with the name of its condition."""
    return AnalysisException(message=message, errorClass=condition, messageParameters={})


def quoted(parts: Sequence[str]) -> str:
    """A name as Spark shows it."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def is_temporary_view(spark: SparkSession, name: str) -> bool:
    """Return whether a name of one part is a temporary view, which hides a table of that name."""
    if not plain(spark.catalog.tableExists)(quoted_name(name)):
        return False
    return bool(plain(spark.catalog.getTable)(quoted_name(name)).isTemporary)
