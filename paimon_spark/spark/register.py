"""Making a Spark session know the format ``paimon``, and a warehouse as an SQL catalog."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from paimon_spark.errors import PaimonError, UnsupportedError
from paimon_spark.spark.session.active_session import activate
from paimon_spark.spark.session.session_settings import carry_settings, is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROBE = "import paimon_spark.commit.file_store_commit"  # pulls in whatever tasks need besides PySpark
_HINT = (
    "set the environment variable PYSPARK_PYTHON to this interpreter before the session starts: "
    "os.environ['PYSPARK_PYTHON'] = sys.executable"
)


def register(spark: SparkSession) -> None:
    """Make ``format("paimon")`` known to a session, classic or Connect. Calling it again does no harm.

    An installed package is found by Spark without it; but only from here on do loads and saves of such sessions see
    what the session has set (``SET spark.paimon.…``, its time zone) and is ``.partitionBy(…)`` of a writer understood.

    Args:
        spark: the session.

    Raises:
        PaimonError: the Python that Spark starts for its workers has no paimon_spark; the message says what to set.
    """
    _check_workers(spark)
    if not is_connect(spark):
        from paimon_spark.spark.jvm.warm_up import warm_up  # needs py4j, which a Connect client may lack

        warm_up(spark)  # meanwhile the rest of this package is imported
    from paimon_spark.spark.source.partition_by import install_partition_by

    install_partition_by(spark)
    _register(spark)
    carry_settings(spark)
    activate(spark)
    if is_connect(spark):
        from paimon_spark.spark.source.connect_streams import install_connect_streams  # needs the extra `connect`

        install_connect_streams()
    else:
        from paimon_spark.spark.hooks.install import install_format  # needs py4j, as above
        from paimon_spark.spark.hooks.stream_sinks import install_stream_sinks
        from paimon_spark.spark.jvm.read_failures import explain_read_failures
        from paimon_spark.spark.jvm.store_settings import follow_session_stores

        follow_session_stores(spark)
        explain_read_failures()
        install_stream_sinks()
        if install_format(spark):
            _follow_new_sessions(spark, register)


def _register(spark: SparkSession) -> None:
    from paimon_spark.spark.source.data_source import PaimonDataSource

    if not is_connect(spark):
        from paimon_spark.spark.jvm.data_source_registry import register_without_search  # py4j, as above

        if register_without_search(spark, PaimonDataSource):
            return
    try:
        spark.dataSource.register(PaimonDataSource)
    except PySparkException as error:
        # Spark 4.0 refuses a name that it has found by itself (`pyspark_paimon`), which is then this very source.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def register_catalog(spark: SparkSession, name: str, *, warehouse: str, parser: bool = True, **options: str) -> None:
    """Make a warehouse directory an SQL catalog of a classic session; calling it again replaces the catalog.

    Sessions made of this one have the catalog too: ``spark.newSession()`` and those that ``foreachBatch`` is given.

    Args:
        spark: a classic session (``SparkSession.builder.master(…)``), not one of Spark Connect.
        name: the catalog's name in statements, as in ``SELECT * FROM <name>.db.t``.
        warehouse: directory of the databases; made when it is not there.
        parser: understand Paimon's own statements as well (``ALTER TABLE t CREATE TAG x``, ``SHOW TAGS t``): whatever
            Spark's parser refuses is looked at once more. False leaves Spark's parser alone.
        options: options of the store (``**{"s3.endpoint": …}``).

    Raises:
        UnsupportedError: the session is one of Spark Connect; the message names what to use instead. Or an option asks
            for another kind of catalog than a directory (``metastore="rest"``).
        OptionError: an option is unknown, or is one of tables.
        PaimonError: the Python workers have no paimon_spark, or the session cannot call back into Python.
    """
    if is_connect(spark):
        raise UnsupportedError(
            "register_catalog needs a classic session: a catalog lives in the JVM of the driver, which Spark Connect "
            "does not let Python reach. Instead of spark.sql use paimon_spark.sql(spark, statement, "
            f"warehouse='{warehouse}', catalog='{name}'): it takes SELECT with VERSION AS OF and TIMESTAMP AS OF, "
            "INSERT, UPDATE, DELETE, CREATE, ALTER, DROP and TRUNCATE TABLE, SHOW, DESCRIBE, CALL and tag statements. "
            f"Instead of spark.table use spark.read.format('paimon').load('{warehouse}/db.db/t') with options such as "
            "scan.tag-name or scan.version, or paimon_spark.PaimonTable.for_path(spark, path).to_df(); instead of "
            "saveAsTable and writeTo df.write.format('paimon').mode('append').save(path); for changes of one table "
            "the methods of paimon_spark.PaimonTable"
        )
    from paimon_spark.table.catalog_options import check_catalog_options

    given = {key: str(value) for key, value in options.items()}
    check_catalog_options(given)
    register(spark)
    from paimon_spark.spark.hooks.install_catalog import install_catalog  # needs py4j, as above

    install_catalog(spark, name, str(warehouse), given, parser=parser)
    _follow_new_sessions(spark, lambda new: register_catalog(new, name, warehouse=warehouse, parser=parser, **options))


def _follow_new_sessions(spark: SparkSession, prepare: Callable[[SparkSession], None]) -> None:
    """Let ``spark.newSession()`` give sessions that are prepared in the same way."""
    plain = spark.newSession

    def new_session() -> SparkSession:
        new = plain()
        prepare(new)
        return new

    spark.newSession = new_session  # type: ignore[method-assign]


def _check_workers(spark: SparkSession) -> None:
    """Look whether the workers of a local session can import what they are going to be sent."""
    context = getattr(spark, "_sc", None)  # a Connect session has none
    if context is None or str(context.master).partition("[")[0] != "local":  # workers of local-cluster have a directory
        return
    python = shutil.which(context.pythonExec)
    if python is None:
        raise PaimonError(f"Spark's Python workers are to run '{context.pythonExec}', which is not there: {_HINT}")
    if os.path.abspath(python) == os.path.abspath(sys.executable):
        return
    check = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, check=False)
    if check.returncode:
        reason = check.stderr.strip().splitlines()[-1:] or ["it ends without a word"]
        raise PaimonError(
            f"Spark's Python workers run {python}, where paimon_spark cannot be imported ({reason[0]}), while this is "
            f"{sys.executable}: {_HINT}"
        )
