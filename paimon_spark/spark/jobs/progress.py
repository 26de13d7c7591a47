"""What jobs are called in Spark's UI, and a bar that shows how far those of a long operation are.

The bar is one of notebooks of classic sessions.

Elsewhere there is one: Spark draws a bar for each stage in a terminal (``spark.ui.showConsoleProgress``), and Connect's
client draws its own in terminals and notebooks. In a notebook Spark's bar would end up in the log of the server.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from html import escape
from typing import TYPE_CHECKING, Any

from paimon_spark.spark.session.session_settings import is_connect
from paimon_spark.storage.store_options import redact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from paimon_spark.spec.snapshot import Operation

_SECONDS_BEFORE = 2.0
"""What is done sooner shows no bar."""
_SECONDS_BETWEEN = 0.5


_DESCRIPTION = "spark.job.description"


def name_of(path: str) -> str:
    """Return a table as the UI names it: ``shop.orders``, or its path where it is in no database."""
    database, _, table = path.rstrip("/").rpartition("/")
    name = database.rpartition("/")[2]
    return f"{name.removesuffix('.db')}.{table}" if name.endswith(".db") else redact(path)


def change_of(operation: Operation | None, path: str) -> str:
    """Return what the jobs of a change of a table do: ``update shop.orders``; of an INSERT they ``write``."""
    verb = "write" if operation is None else operation.value.lower().replace("_", " ")
    return f"{verb} {name_of(path)}"


def named_jobs(spark: SparkSession, what: str) -> AbstractContextManager[None]:
    """Let Spark's UI show what the jobs of this thread are, such as ``paimon: compact shop.orders, 12 files``.

    A name that the user has given to the jobs stays. On Connect a client names no jobs: the server shows the operation.
    """
    return job_property(spark, _DESCRIPTION, f"paimon: {what}")


@contextmanager
def job_property(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Give the jobs of this thread a property that they lack; on Connect a client has none to give."""
    context = None if is_connect(spark) else getattr(spark, "sparkContext", None)
    if context is None or not hasattr(context, "setLocalProperty") or context.getLocalProperty(key):
        yield
        return
    context.setLocalProperty(key, value)
    try:
        yield
    finally:
        context.setLocalProperty(key, None)


@contextmanager
def shown_progress(spark: SparkSession, what: str) -> Iterator[None]:
    """Show how many tasks of the stages that run meanwhile are done.

    Args:
        spark: the session that runs the jobs.
        what: is done, such as ``Compacting /wh/db.db/t``.
    """
    show = None if is_connect(spark) else _notebook_bar()
    if show is None:
        yield
        return
    done = threading.Event()
    watching = threading.Thread(target=_watch, args=(spark, what, show, done), daemon=True)
    watching.start()
    try:
        yield
    finally:
        done.set()
        watching.join()


def _watch(spark: SparkSession, what: str, show: Callable[[str], None], done: threading.Event) -> None:
    with suppress(Exception):  # a bar is no reason to fail
        tracker = spark.sparkContext.statusTracker()
        if done.wait(_SECONDS_BEFORE):
            return
        while not done.is_set():
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            show(bar(what, sum(s.numCompletedTasks for s in stages if s), sum(s.numTasks for s in stages if s)))
            done.wait(_SECONDS_BETWEEN)
        show("")


def bar(what: str, completed: int, tasks: int) -> str:
    """Return the bar as HTML."""
    return (
        f'<progress value="{completed}" max="{max(1, tasks)}"></progress> {escape(what)}: {completed} of {tasks} tasks'
    )


def _notebook_bar() -> Callable[[str], None] | None:
    """What shows HTML in one place of the cell that runs; None outside of a notebook."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return None
    handle = ipython.display.display(ipython.display.HTML(""), display_id=True)
    return lambda html: handle.update(ipython.display.HTML(html))
