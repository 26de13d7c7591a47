"""Making a warehouse an SQL catalog of a session, classic or Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.spark.register import follow_new_sessions, register
from paimon_spark.spark.session.session_settings import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_catalog(spark: SparkSession, name: str, *, warehouse: str, parser: bool = True, **options: str) -> None:
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
        warehouse: directory of the databases; made when it is not there.
        parser: understand Paimon's own statements as well (``ALTER TABLE t CREATE TAG x``, ``SHOW TAGS t``): whatever
            Spark's parser refuses is looked at once more. False leaves Spark's parser alone. On Connect they are.
        options: options of the store (``**{"s3.endpoint": …}``).

    Raises:
        UnsupportedError: an option asks for another kind of catalog than a directory (``metastore="rest"``).
        OptionError: an option is unknown, or is one of tables.
        PaimonError: the Python workers have no paimon_spark, or the session cannot call back into Python.
    """
    from paimon_spark.table.catalog_options import check_catalog_options

    given = {key: str(value) for key, value in options.items()}
    check_catalog_options(given)
    register(spark)
    if is_connect(spark):
        from paimon_spark.spark.connect.install import install_connect_catalog  # needs the extra `connect`

        install_connect_catalog(spark, name, str(warehouse), given)
    else:
        from paimon_spark.spark.hooks.install_catalog import install_catalog  # needs py4j, which a client may lack

        install_catalog(spark, name, str(warehouse), given, parser=parser)
    follow_new_sessions(spark, lambda new: register_catalog(new, name, warehouse=warehouse, parser=parser, **options))
