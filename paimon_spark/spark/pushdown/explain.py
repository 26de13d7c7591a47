"""``DataFrame.explain`` of a Connect session: behind Spark's plan stands what is read of each Paimon table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from paimon_spark.errors import PaimonError
from paimon_spark.spark.pushdown.loads import push_down
from paimon_spark.spark.session.connect_messages import SUBQUERY_ALIAS, copied, is_paimon_load, load_options, messages
from paimon_spark.spark.session.connect_plans import loads_of, sent_plan
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
    """A line for each load of rows, once; of streams there is none."""
    from paimon_spark.spark.statements.query_trees import named_tables  # sqlglot, which `register` spares

    connected: Any = frame
    client = connected.sparkSession.client
    relation = copied(connected._plan.plan(client))
    push_down(relation, client)
    sent = type(connected)(sent_plan(relation), connected.sparkSession)
    loads = list(filter(is_paimon_load, loads_of(sent, named_tables)))
    if not loads or frame.isStreaming:
        return []
    names = _names(relation)
    return list(dict.fromkeys(line for load in loads if (line := _line(load, names)) is not None))


def _line(load: Any, names: Mapping[str, str]) -> str | None:
    """What is read of a table, under its name if the plan has one; None for a system table."""
    try:
        request = read_request(load_options(load))
        if metadata_source(request) is not None:
            return None
        return f"{names.get(request.path, request.path)} {TableRead.of(request).describe()}"
    except (PaimonError, OSError) as error:  # a store that only the server reaches, say
        return f"{load_options(load).get('path')} (this client cannot plan it: {error})"


def _names(relation: Any) -> dict[str, str]:
    """The names of tables that ``spark.table`` was given, by their paths."""
    named = {}
    for one in messages(relation, SUBQUERY_ALIAS):
        if one.qualifier and one.input.HasField("read"):
            path = load_options(one.input.read.data_source).get("path", "")
            named[path] = ".".join((*one.qualifier, one.alias))
    return named
