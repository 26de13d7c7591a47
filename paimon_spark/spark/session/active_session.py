"""The session of a thread, in which Spark looks for Python data sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paimon_spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def activate(spark: SparkSession) -> None:
    """Let the thread that calls this find the format: in a new thread, Spark looks for Python sources in no session."""
    if getattr(spark, "_sc", None) is not None and type(spark).getActiveSession() is None:
        spark.createDataFrame([], "unused int")  # makes the session the thread's active one, as any query would


def check_session(given: Any, call: str) -> None:
    """Refuse what is no session.

    Args:
        given: what stands where the session belongs.
        call: how the function is called, as in ``register(spark)``.

    Raises:
        OptionError: it is none, such as a path that was given first.
    """
    if not hasattr(given, "createDataFrame"):
        raise OptionError(f"{call} takes the session first, and {given!r} is none")
