"""Which options a catalog accepts: those of the store, and those that ask for what this catalog does in any case."""

from __future__ import annotations

from collections.abc import Mapping

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.options import Option, Scope, find_option, unknown_option_error

_WITHOUT_EFFECT = ("cache-", "cache.", "file-io.allow-cache")
"""Prefixes of keys about Java's caches: there is no cache here, so they change no rows."""
_OWN_KEYS = ("metastore", "warehouse", "default-database", "s3.endpoint", "s3.access-key", "s3.secret-key")


def check_catalog_options(options: Mapping[str, str]) -> None:
    """Check the options of a catalog before they are used.

    Raises:
        UnsupportedError: an option asks for another kind of catalog than a directory, or for what this one does not do.
        OptionError: an option is unknown, belongs to tables, reads or writes, or has a value that it cannot have.
    """
    for key, text in options.items():
        option = find_option(key)
        if option is None:
            raise unknown_option_error(key, _OWN_KEYS)
        if option.scope is Scope.CATALOG:
            _check_catalog_option(option, key, text)
        elif option.scope is not Scope.STORE:
            raise OptionError(
                f"'{key}' is no option of a catalog but of a table, a read or a write: give it where the table is "
                "created (TBLPROPERTIES) or where it is read or written (option). A catalog takes options of the store."
            )


def _check_catalog_option(option: Option, key: str, text: str) -> None:
    if option.key == "metastore":
        if text.strip().lower() == option.default:
            return
        raise UnsupportedError(
            f"Catalogs with 'metastore' = '{text}' are not supported: a catalog here is a directory (metastore "
            "'filesystem'), and tables written beside the metastore would not be known to it. Leave 'metastore' "
            "out and name the directory as the warehouse, or use the official connector for this catalog."
        )
    if option.key.startswith(_WITHOUT_EFFECT):
        option.parse(text)
        return
    if "*" in option.key or option.parse(text) != option.default:
        raise UnsupportedError(
            f"The catalog option '{key}' is not supported: a catalog here is a directory of databases and has options "
            "of the store only. Remove the option."
        )
