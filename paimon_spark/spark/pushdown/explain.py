"""``DataFrame.explain`` of a Connect session: behind Spark's plan stands what is read of each Paimon table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import PaimonError
from paimon_spark.spark.pushdown.loads import push_down
from paimon_spark.spark.session.connect_plans import load_options, loads_of, sent_plan
from paimon_spark.spark.session.plain_methods import wrap_method
from paimon_spark.spark.source.source_options import read_request
from paimon_spark.spark.source.system_read import metadata_source
from paimon_spark.spark.source.table_read import TableRead, scans_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def install_explain() -> None:
    """Let DataFrames of Connect sessions say which files of Paimon tables they read."""
    from pyspark.sql.connect.dataframe import DataFrame

    wrap_method(DataFrame, "explain", _explain)


def _explain(own: Callable[..., None]) -> Callable[..., None]:
    def explain(self: Any, *given: Any, **named: Any) -> None:
        __tracebackhide__ = True
        own(self, *given, **named)
        lines = _scans(self)
        if lines:
            print(scans_text(lines))

    return explain


def _scans(frame: DataFrame) -> list[str]:
    """A line for each load of rows; none for those that this client cannot plan, and for streams."""
    from paimon_spark.spark.statements.query_trees import named_tables  # sqlglot, which `register` spares

    connected: Any = frame
    client = connected.sparkSession.client
    relation = connected._plan.plan(client)
    push_down(relation, client)
    sent = type(connected)(sent_plan(relation), connected.sparkSession)
    loads = [load for load in loads_of(sent, named_tables) if load.format.lower() == "paimon"]
    lines: list[str] = []
    if not loads or frame.isStreaming:
        return lines
    for load in loads:
        with suppress(PaimonError, OSError):  # a system table, say, or a store that only the server reaches
            request = read_request(load_options(load))
            if metadata_source(request) is None:
                lines.append(f"{request.path} {TableRead.of(request).describe()}")
    return lines
