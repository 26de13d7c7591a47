"""Making a Spark session know the format ``paimon``."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException

from paimon_spark.errors import PaimonError
from paimon_spark.spark.session.session_settings import activate, carry_settings, is_connect
from paimon_spark.spark.session.typed_errors import raise_typed_errors_of_classic, raise_typed_errors_of_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)
_PROBE = "import paimon_spark.commit.file_store_commit"  # pulls in whatever tasks need besides PySpark
_HINT = (
    "call spark.stop(), set the environment variable PYSPARK_PYTHON to a Python that has paimon_spark "
    "(os.environ['PYSPARK_PYTHON'] = …) and make the session anew"
)
FORMAT: Final = ""
"""No name of a catalog."""
_preparations: WeakKeyDictionary[Any, dict[str, Callable[[Any], None]]] = WeakKeyDictionary()
"""What sessions that are made of a session are given, by the name of the catalog."""


def register(spark: SparkSession) -> None:
    """Make ``format("paimon")`` known to a session, classic or Connect. Calling it again does no harm.

    An installed package is found by Spark without it; but only from here on do loads and saves of such sessions see
    what the session has set (``SET spark.paimon.…``, its time zone) and is ``.partitionBy(…)`` of a writer understood.

    Args:
        spark: the session.

    Raises:
        PaimonError: the Python that Spark starts for its workers has no paimon_spark, and this process does not know
            its own interpreter either; the message says what to set.
    """
    if is_connect(spark):
        from paimon_spark.spark.pushdown.loads import with_all_columns  # needs the extra `connect`

        raise_typed_errors_of_connect(with_all_columns)
    else:
        raise_typed_errors_of_classic()  # what is wrong from here on is said in one line
    _choose_workers(spark)
    if not is_connect(spark):
        from paimon_spark.spark.jvm.warm_up import warm_up  # needs py4j, which a Connect client may lack

        warm_up(spark)  # meanwhile the rest of this package is imported
    from paimon_spark.spark.source.partition_by import install_partition_by

    install_partition_by(spark)
    _register(spark)
    carry_settings(spark)
    activate(spark)
    if is_connect(spark):
        from paimon_spark.spark.pushdown.connect_loads import install_connect_loads
        from paimon_spark.spark.pushdown.loads import install_explain, install_push_down
        from paimon_spark.spark.session.connect_plans import install_views
        from paimon_spark.spark.source.stream_writer import install_connect_streams  # needs the extra `connect`

        install_connect_loads()
        install_connect_streams()
        install_views()
        install_explain()
        install_push_down()
    else:
        from paimon_spark.spark.hooks.install import install_format  # needs py4j, as above
        from paimon_spark.spark.hooks.stream_sinks import install_stream_sinks
        from paimon_spark.spark.jvm.spark_errors import explain_read_failures
        from paimon_spark.spark.jvm.store_settings import follow_session_stores

        follow_session_stores(spark)
        explain_read_failures()
        install_stream_sinks()
        if install_format(spark):
            follow_new_sessions(spark, FORMAT, register)


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


def preparations_of(spark: SparkSession) -> dict[str, Callable[[SparkSession], None]]:
    """Return what prepares the sessions that are made of a session: by the name of the catalog that it registers."""
    return _preparations.setdefault(spark, {})


def follow_new_sessions(spark: SparkSession, name: str, prepare: Callable[[SparkSession], None]) -> None:
    """Let ``spark.newSession()`` give sessions that are prepared in the same way, and ``cloneSession()`` of Connect.

    Args:
        spark: the session.
        name: of the catalog, `FORMAT` for ``format("paimon")``: what was to prepare sessions by this name is replaced.
        prepare: is called with each new session.
    """
    known = preparations_of(spark)
    is_followed = bool(known)
    known[name] = prepare
    if is_followed:
        return
    for method in ("newSession", "cloneSession"):
        plain = getattr(spark, method, None) if method == "newSession" or is_connect(spark) else None
        if plain is not None:
            setattr(spark, method, _preparing(plain, known))


def _preparing(
    plain: Callable[..., SparkSession], preparations: Mapping[str, Callable[[SparkSession], None]]
) -> Callable[..., SparkSession]:
    def new_session(*arguments: Any, **named: Any) -> SparkSession:
        new = plain(*arguments, **named)
        for prepare in list(preparations.values()):
            prepare(new)
        return new

    return new_session


def _choose_workers(spark: SparkSession) -> None:
    """Let the workers of a local session run an interpreter that can import what they are going to be sent.

    Those of a cluster run on other machines, or in directories of their own: there a warning says what to do.
    """
    context = getattr(spark, "_sc", None)  # a Connect session has none
    if context is None:
        return
    local = str(context.master).partition("[")[0] == "local"
    python = shutil.which(context.pythonExec)
    if python is None and not local:
        return
    if python is not None and os.path.abspath(python) == os.path.abspath(sys.executable):
        return
    if python is None:
        wrong = f"Spark's Python workers are to run '{context.pythonExec}', which is not there"
    else:
        check = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, check=False)
        if not check.returncode:
            return
        reason = check.stderr.strip().splitlines()[-1:] or ["it ends without a word"]
        wrong = f"Spark's Python workers run {python}, where paimon_spark cannot be imported ({reason[0]})"
    if not local:
        _LOG.warning("%s. Unless the workers' machines have another one: %s", wrong, _HINT)
        return
    if not sys.executable:
        raise PaimonError(f"{wrong}: {_HINT}")
    context.pythonExec = sys.executable  # workers of a local master run here, where this interpreter is
    _LOG.info("%s: from now on they run %s", wrong, sys.executable)
