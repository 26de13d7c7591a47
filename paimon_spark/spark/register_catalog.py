"""Making a warehouse an SQL catalog of a session, classic or Connect."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.metastore.opening import kind_of
from paimon_spark.spark.register import follow_new_sessions
from paimon_spark.spark.register import register as register_format
from paimon_spark.spark.session.hive_address import with_hive_address
from paimon_spark.spark.session.session_settings import check_session, every_setting, is_connect
from paimon_spark.spark.session.typed_errors import remember_catalog_name
from paimon_spark.table.paths import refuse_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)
_SETTING = "spark.sql.catalog."
_OFFICIAL = "org.apache.paimon.spark.SparkCatalog"
_OFFICIAL_SESSION_CATALOG = "org.apache.paimon.spark.SparkGenericCatalog"
_warehouses: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()
"""The warehouse of each catalog that was registered, by session."""


def register(spark: SparkSession) -> None:
    """Make ``format("paimon")`` known to a session, classic or Connect. Calling it again does no harm.

    An installed package is found by Spark without it; but only from here on do loads and saves of such sessions see
    what the session has set (``SET spark.paimon.…``, its time zone) and is ``.partitionBy(…)`` of a writer understood.

    Catalogs that the session's settings name as the official connector has them
    (``spark.sql.catalog.<name>=org.apache.paimon.spark.SparkCatalog``, ``spark.sql.catalog.<name>.warehouse``, options
    of the store) are registered, as by `register_catalog`; where the connector's jar is there they stay its own.

    On a local master whose workers run a Python without this package they run this interpreter from here on.

    Args:
        spark: the session.

    Raises:
        OptionError: the settings of a catalog name no warehouse, or an option that is unknown; or Spark Connect hides
            some of them.
        UnsupportedError: they ask for another kind of catalog, or for Paimon's tables in ``spark_catalog``
            (``SparkGenericCatalog``).
        PaimonError: Spark's workers have no paimon_spark; the message says what to set.
    """
    check_session(spark, "register(spark)")
    register_format(spark)
    if is_connect(spark):
        from paimon_spark.spark.connect.writers import install_saves  # needs the extra `connect`

        install_saves()
    settings = every_setting(spark)
    if not is_connect(spark) and not _has_jar(spark):
        _refuse_in_session_catalog(settings)
    for name, options in _official_catalogs(settings):
        if name not in _warehouses.get(spark, {}) and not _has_jar(spark):
            _refuse_hidden(spark, name, settings)
            warehouse = options.pop("warehouse", None)
            if warehouse is None:
                raise OptionError(f"{_SETTING}{name} is {_OFFICIAL}, but {_SETTING}{name}.warehouse is not set")
            register_catalog(spark, name, warehouse=warehouse, **options)


def _official_catalogs(settings: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The catalogs that settings give to the official connector, and the options of each."""
    for key, value in sorted(settings.items()):
        name = key.removeprefix(_SETTING)
        if key.startswith(_SETTING) and "." not in name and value == _OFFICIAL:
            begin = f"{key}."
            yield name, {k.removeprefix(begin): v for k, v in settings.items() if k.startswith(begin)}


def _refuse_hidden(spark: SparkSession, name: str, settings: Mapping[str, str]) -> None:
    """Refuse settings of a catalog that the server of Spark Connect has and does not tell: what is secret by name."""
    if not is_connect(spark):
        return
    begin = f"{_SETTING}{name}."
    there = [str(row[0]) for row in spark.sql("SET").collect() if str(row[0]).startswith(begin)]
    hidden = [key for key in there if key not in settings]
    if hidden:
        options = ", ".join(f"'{key.removeprefix(begin)}'" for key in hidden)
        raise OptionError(
            f"The server of Spark Connect does not tell its clients {options} of catalog {name}, since "
            "'spark.redaction.regex' takes them for secrets: call register_catalog(spark, "
            f"'{name}', warehouse=…, …) with them before register(spark), or instead of it"
        )


def _refuse_in_session_catalog(settings: Mapping[str, str]) -> None:
    """Refuse the connector's classes as Spark's own catalog, before each statement says that they are missing."""
    found = settings.get(f"{_SETTING}spark_catalog")
    if found in (_OFFICIAL, _OFFICIAL_SESSION_CATALOG):
        raise UnsupportedError(
            f"{_SETTING}spark_catalog is {found}, which needs the connector's jar. Without the jar leave this setting "
            f"out and name a catalog ({_SETTING}paimon={_OFFICIAL}, {_SETTING}paimon.warehouse=…), whose tables are "
            "paimon.database.table, or database.table where spark.sql.defaultCatalog is paimon"
        )


def _has_jar(spark: SparkSession) -> bool:
    if is_connect(spark):
        return False
    from paimon_spark.spark.jvm.gateway import has_class  # needs py4j, which a Connect client may lack

    return has_class(spark, _OFFICIAL)


def register_catalog(spark: SparkSession, name: str, warehouse: str, *, parser: bool = True, **options: str) -> None:
    """Make a warehouse directory an SQL catalog of a session; calling it again replaces the catalog.

    Sessions made of this one have the catalog too: ``spark.newSession()`` and, of a classic one, those that
    ``foreachBatch`` is given.

    Spark Connect lets Python add no catalog to the server. There the session's own methods (``sql``, ``table``,
    ``read.table``, ``writeTo``, ``write.saveAsTable`` and ``insertInto``, ``mergeInto``, ``readStream.table``,
    ``writeStream.toTable``, ``catalog``) look first whether a table of this catalog is named: `paimon_spark.sql` tells
    what such statements can say. All else goes to the server as it came; a query may join tables of both.

    Args:
        spark: the session, classic or Connect.
        name: the catalog's name in statements, as in ``SELECT * FROM <name>.db.t``.
        warehouse: directory of the databases, made when it is not there; of a REST catalog the name that its server
            has for it.
        parser: understand Paimon's own statements as well (``ALTER TABLE t CREATE TAG x``, ``SHOW TAGS t``): whatever
            Spark's parser refuses is looked at once more. False leaves Spark's parser alone. On Connect they are.
        options: options of the store (``**{"s3.endpoint": …}``) and of the catalog (``metastore="rest"``, ``uri=…``).

    Raises:
        UnsupportedError: an option asks for a kind of catalog that is not supported (``metastore="glue"``).
        OptionError: an option is unknown, or is one of tables; arguments are in the wrong order.
        PaimonError: the Python workers have no paimon_spark, or the session cannot call back into Python.
    """
    from paimon_spark.table.filesystem_catalog import check_catalog_options

    check_session(spark, "register_catalog(spark, 'paimon', warehouse=…)")
    if name == "spark_catalog":
        raise OptionError("spark_catalog is Spark's own catalog: give another name, such as 'paimon'")
    if not isinstance(warehouse, str | os.PathLike) or not os.fspath(warehouse):
        raise OptionError(f"The warehouse of catalog {name} is a directory, such as '/data/wh', and not {warehouse!r}")
    if not isinstance(name, str) or "/" in name or ":" in name:
        raise OptionError(
            f"register_catalog takes the name of the catalog, then its directory, and {name!r} is no name: "
            f"register_catalog(spark, 'paimon', warehouse={name!r})"
        )
    given = with_hive_address(spark, {key: str(value) for key, value in options.items()})
    check_catalog_options(given)
    register_format(spark)
    _say(spark, name, str(warehouse), is_directory=kind_of(given) != "rest")
    remember_catalog_name(name)
    if is_connect(spark):
        from paimon_spark.spark.connect.install import install_connect_catalog  # needs the extra `connect`

        install_connect_catalog(spark, name, str(warehouse), given)
    else:
        from paimon_spark.spark.hooks.install_catalog import install_catalog  # needs py4j, which a client may lack

        install_catalog(spark, name, str(warehouse), given, parser=parser)

    def prepare(new: SparkSession) -> None:
        register_catalog(new, name, warehouse=warehouse, parser=parser, **options)

    follow_new_sessions(spark, name, prepare)


def _say(spark: SparkSession, name: str, warehouse: str, *, is_directory: bool) -> None:
    """Make a local warehouse that is not there, and tell of that, and of a catalog that gets another warehouse."""
    refuse_home(warehouse)
    path = warehouse.removeprefix("file://").removeprefix("file:")
    is_local = is_directory and ":" not in path.partition("/")[0]
    if is_local and os.path.isfile(path):
        raise OptionError(f"The warehouse of catalog {name} is a directory, and {warehouse} is a file")
    known = _warehouses.setdefault(spark, {})
    if known.get(name, warehouse) != warehouse:
        _LOG.warning("catalog %s was %s, and is %s from now on", name, known[name], warehouse)
    known[name] = warehouse
    if is_local and not os.path.exists(path):
        try:
            os.makedirs(path)
        except OSError as error:
            raise OptionError(
                f"The warehouse {warehouse} of catalog {name} is not there and cannot be made ({error.strerror}): "
                "name a directory that this user may write to"
            ) from error
        _LOG.warning("the warehouse %s of catalog %s was not there: it is made now", warehouse, name)
