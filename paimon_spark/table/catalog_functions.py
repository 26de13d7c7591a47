"""Functions of a catalog: looked for, made and dropped. REST catalogs keep them, others do not."""

from __future__ import annotations

from paimon_spark.errors import SchemaError, UnsupportedError
from paimon_spark.metastore.rest import RestMetastore
from paimon_spark.spec.function import Function, check_function_name, is_function_name
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE, FilesystemCatalog
from paimon_spark.table.metastore_catalog import MetastoreCatalog
from paimon_spark.table.paths import is_plain_name


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
    """Make a function; return False where there is one of its name.

    Raises:
        UnsupportedError: the catalog keeps no functions.
        SchemaError: no function can have the name.
        PaimonError: there is no such database.
    """
    server = check_keeps_functions(catalog, "of the statement")
    check_function_name(name)
    if database == SYSTEM_DATABASE:
        raise SchemaError(f"Functions of {SYSTEM_DATABASE} are Paimon's own: none can be made or dropped there.")
    return server.add_function(database, name, function)


def drop_function(catalog: FilesystemCatalog, database: str, name: str) -> bool:
    """Drop a function; return whether it was there.

    Raises:
        UnsupportedError: the catalog keeps no functions.
    """
    server = check_keeps_functions(catalog, "of the statement")
    return server.drop_function(database, name)


def check_keeps_functions(catalog: FilesystemCatalog, catalog_name: str) -> RestMetastore:
    """Refuse a statement about functions of a catalog that keeps none.

    Raises:
        UnsupportedError: it keeps none; the message says which ones do.
    """
    server = _server(catalog)
    if server is None:
        kind = catalog.options.get("metastore", "filesystem")
        raise UnsupportedError(
            f"Catalog {catalog_name} keeps no functions ('metastore' = '{kind}'): catalogs with 'metastore' = 'rest' "
            "do. Use CREATE TEMPORARY FUNCTION, which lasts as long as the session."
        )
    return server


def _server(catalog: FilesystemCatalog) -> RestMetastore | None:
    found = catalog.metastore if isinstance(catalog, MetastoreCatalog) else None
    return found if isinstance(found, RestMetastore) else None
