"""Which options a catalog accepts: those of the store, and those that ask for what this catalog does in any case."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.metastore.opening import check_kind, is_directory, kind_of, lock_of, lock_type
from paimon_spark.options import (
    LOCK_OPTIONS,
    METASTORE_OPTIONS,
    Option,
    Scope,
    find_option,
    log_ignored,
    unknown_option_error,
)
from paimon_spark.table.catalog_cache import CatalogCache

_DEFAULT = "table-default."
_OWN_KEYS = ("metastore", "warehouse", "default-database", "s3.endpoint", "s3.access-key", "s3.secret-key")


def check_catalog_options(options: Mapping[str, str]) -> None:
    """Check the options of a catalog before they are used.

    Raises:
        UnsupportedError: an option asks for a kind of catalog that is not supported, or for what this one does not do.
        OptionError: an option is unknown, belongs to tables, reads or writes, or has a value that it cannot have.
    """
    CatalogCache.of(options)
    metastore = kind_of(options)
    of_directory = LOCK_OPTIONS.get(lock_type(options), frozenset({"lock.enabled"}))
    for key, text in options.items():
        option = find_option(key)
        if option is None:
            raise unknown_option_error(key, _OWN_KEYS)
        if option.scope is Scope.CATALOG:
            _check_catalog_option(option, key, text)
            if key.startswith(_DEFAULT):
                _check_default(key, text)
            kinds = [kind for kind, keys in METASTORE_OPTIONS.items() if option.key in keys]
            if kinds and not (option.key in of_directory if is_directory(options) else metastore in kinds):
                raise UnsupportedError(
                    f"The catalog option '{key}' is for catalogs of another kind: add 'metastore' = "
                    f"{' or '.join(repr(kind) for kind in kinds)}, or remove it."
                )
        elif option.scope is not Scope.STORE:
            raise OptionError(
                f"'{key}' is no option of a catalog but of a table, a read or a write: give it where the table is "
                "created (TBLPROPERTIES) or where it is read or written (option). A catalog takes options of the store."
            )
    lock_of(options)
    without_effect = {key: text for key, text in options.items() if not _is_refused(key)}
    log_ignored("The catalog", without_effect, logging.WARNING)


def _check_default(key: str, text: str) -> None:
    """Refuse a default of what is no option of tables, or of a value that it cannot have."""
    option = find_option(key[len(_DEFAULT) :])
    if option is None:
        raise unknown_option_error(key[len(_DEFAULT) :], ())
    if option.scope is not Scope.TABLE:
        raise OptionError(f"'{key}': {option.key} is no option of a table, so a catalog can give tables none.")
    if not option.key.endswith("*") and "<" not in option.key:
        option.parse(text)


def _is_refused(key: str) -> bool:
    option = find_option(key)
    return option is not None and bool(option.refusals)


def _check_catalog_option(option: Option, key: str, text: str) -> None:
    if option.key == "metastore":
        check_kind(text)
        return
    default = not option.key.endswith("*") and option.parse(text) == option.default
    if option.refusals and not default:
        raise UnsupportedError(f"The catalog option '{key}' is not supported. {option.refusals[0].advice}")
