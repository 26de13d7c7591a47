"""Views and functions of a catalog: looked for, made, changed and dropped.

A catalog that is a directory keeps neither. Functions are kept by REST catalogs alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from paimon_spark.errors import PaimonError, SchemaError, TableNotFoundError, UnsupportedError
from paimon_spark.spec.view_records import Function, View, ViewChange, check_function_name, is_function_name
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE, FilesystemCatalog, refuse_system
from paimon_spark.table.metastore_catalog import MetastoreCatalog
from paimon_spark.table.paths import check_new_table_name, is_plain_name

if TYPE_CHECKING:
    from paimon_spark.metastore.metastore import Metastore
    from paimon_spark.metastore.rest import RestMetastore


def keeps_views(catalog: FilesystemCatalog) -> bool:
    """Whether a catalog keeps views."""
    return isinstance(catalog, MetastoreCatalog)


def find_view(catalog: FilesystemCatalog, database: str, name: str) -> View | None:
    """Look for a view; None where it is not there, or the catalog keeps none."""
    if not isinstance(catalog, MetastoreCatalog) or not is_plain_name(database) or not is_plain_name(name):
        return None
    return catalog.metastore.view(database, name)


def views_of(catalog: FilesystemCatalog, database: str) -> list[str]:
    """Names of the views of a database, sorted; none where the catalog keeps none.

    Raises:
        PaimonError: there is no such database.
    """
    if not catalog.has_database(database):
        raise PaimonError(f"Database {database} does not exist.")
    return sorted(catalog.metastore.views(database)) if isinstance(catalog, MetastoreCatalog) else []


def check_keeps_views(catalog: FilesystemCatalog, catalog_name: str) -> None:
    """Refuse a statement about views of a catalog that keeps none.

    Raises:
        UnsupportedError: it keeps none; the message says what to do.
    """
    if not isinstance(catalog, MetastoreCatalog):
        raise UnsupportedError(
            f"Catalog {catalog_name} keeps no views, since it is a directory ('metastore' = 'filesystem'): use CREATE "
            "TEMPORARY VIEW, CREATE VIEW spark_catalog.default.<name> on a classic session, or a catalog with "
            "'metastore' = 'jdbc', 'hive' or 'rest'."
        )


def create_view(catalog: FilesystemCatalog, database: str, name: str, view: View, *, replaces: bool = False) -> None:
    """Make a view; with `replaces`, in place of one that is there.

    Raises:
        UnsupportedError: the catalog keeps no views.
        SchemaError: a table, or a view that is not to be replaced, has the name; or it can be none's.
        PaimonError: there is no such database.
    """
    metastore = _metastore(catalog, database)
    check_new_table_name(name, "view")
    if replaces and metastore.has_view(database, name):
        metastore.replace_view(database, name, view)
    elif not metastore.add_view(database, name, view):
        raise _taken(database, name)


def replace_view(catalog: FilesystemCatalog, database: str, name: str, view: View) -> None:
    """Give a view that is there another definition.

    Raises:
        UnsupportedError: the catalog keeps no views.
        PaimonError: it is not there any more.
    """
    _metastore(catalog, database).replace_view(database, name, view)


def alter_view(catalog: FilesystemCatalog, database: str, name: str, changes: Sequence[ViewChange]) -> None:
    """Change options, comment or dialects of a view.

    Raises:
        UnsupportedError: the catalog keeps no views, or no dialects.
        SchemaError: a dialect is there already, or is not there.
        PaimonError: the view is not there.
    """
    _metastore(catalog, database).alter_view(database, name, changes)


def drop_view(catalog: FilesystemCatalog, database: str, name: str) -> None:
    """Drop a view.

    Raises:
        UnsupportedError: the catalog keeps no views.
        TableNotFoundError: there is none.
    """
    if not _metastore(catalog, database).drop_view(database, name):
        raise TableNotFoundError(f"View {database}.{name} does not exist.")


def rename_view(catalog: FilesystemCatalog, database: str, name: str, to_database: str, to_name: str) -> None:
    """Give a view another name.

    Raises:
        UnsupportedError: the catalog keeps no views.
        SchemaError: a table or a view has the new name, or it can be none's.
        PaimonError: there is no such database.
    """
    metastore = _metastore(catalog, to_database)
    check_new_table_name(to_name, "view")
    if not metastore.rename_view(database, name, to_database, to_name):
        raise _taken(to_database, to_name)


def _metastore(catalog: FilesystemCatalog, database: str) -> Metastore:
    check_keeps_views(catalog, "of the statement")
    assert isinstance(catalog, MetastoreCatalog)
    refuse_system(database)
    if not catalog.has_database(database):
        raise PaimonError(f"Database {database} does not exist.")
    return catalog.metastore


def _taken(database: str, name: str) -> SchemaError:
    return SchemaError(f"View {database}.{name} cannot be made: a table or view of its name already exists.")


def keeps_functions(catalog: FilesystemCatalog) -> bool:
    """Whether a catalog keeps functions."""
    return _server(catalog) is not None


def find_function(catalog: FilesystemCatalog, database: str, name: str) -> Function | None:
    """Look for a function; None where it is not there, or the catalog keeps none."""
    server = _server(catalog)
    is_one = database != SYSTEM_DATABASE and is_plain_name(database) and is_function_name(name)
    return None if server is None or not is_one else server.function(database, name)


def functions_of(catalog: FilesystemCatalog, database: str) -> list[str]:
    """Names of the functions of a database, sorted; none where the catalog keeps none.

    Raises:
        PaimonError: there is no such database.
    """
    server = _server(catalog)
    return [] if server is None or database == SYSTEM_DATABASE else sorted(server.functions(database))


def create_function(catalog: FilesystemCatalog, database: str, name: str, function: Function) -> bool:
    """Make a function of a catalog that keeps them; return False where there is one of its name.

    Raises:
        SchemaError: no function can have the name.
        PaimonError: there is no such database.
    """
    check_function_name(name)
    if database == SYSTEM_DATABASE:
        raise SchemaError(f"Functions of {SYSTEM_DATABASE} are Paimon's own: none can be made or dropped there.")
    return _keeper(catalog).add_function(database, name, function)


def drop_function(catalog: FilesystemCatalog, database: str, name: str) -> bool:
    """Drop a function of a catalog that keeps them; return whether it was there."""
    return _keeper(catalog).drop_function(database, name)


def check_keeps_functions(catalog: FilesystemCatalog, catalog_name: str) -> None:
    """Refuse a statement about functions of a catalog that keeps none.

    Raises:
        UnsupportedError: it keeps none; the message says which ones do.
    """
    if not keeps_functions(catalog):
        kind = catalog.options.get("metastore", "filesystem")
        raise UnsupportedError(
            f"Catalog {catalog_name} keeps no functions ('metastore' = '{kind}'): catalogs with 'metastore' = 'rest' "
            "do. Use CREATE TEMPORARY FUNCTION, which lasts as long as the session."
        )


def _keeper(catalog: FilesystemCatalog) -> RestMetastore:
    server = _server(catalog)
    assert server is not None, "check_keeps_functions() comes first"
    return server


def _server(catalog: FilesystemCatalog) -> RestMetastore | None:
    if not isinstance(catalog, MetastoreCatalog):
        return None
    from paimon_spark.metastore.rest import RestMetastore  # whoever has a directory for a catalog does without it

    found = catalog.metastore
    return found if isinstance(found, RestMetastore) else None
