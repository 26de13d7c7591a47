"""Plans of Connect sessions whose loads are changed before they go to the server.

What ``pyspark.sql.connect`` calls a plan is known here only as a message of the protocol, whose loads are found by the
protocol's own description. The ids by which Columns name a DataFrame stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOAD = "spark.connect.Read.DataSource"


def with_loads(frame: DataFrame, change: Callable[[Any], bool]) -> DataFrame:
    """Return a DataFrame whose loads are changed; the same one where none is.

    Args:
        frame: of a Connect session.
        change: is given each load (``Read.DataSource``, with `format`, `options` and `paths`), may change it, and tells
            whether it did.
    """
    from pyspark.sql.connect.plan import LogicalPlan

    plan: Any = frame._plan
    client: Any = frame.sparkSession.client
    relation = plan.plan(client)
    changes = [change(load) for load in _loads(relation)]
    if not any(changes):
        return frame

    class Changed(LogicalPlan):
        """A relation as it is."""

        def __init__(self) -> None:
            super().__init__(None)

        def plan(self, session: Any) -> Any:
            """The message; plans above it copy it."""
            return relation

    return type(frame)(Changed(), frame.sparkSession)


def _loads(message: Any) -> Iterator[Any]:
    """The loads anywhere in a message."""
    if message.DESCRIPTOR.full_name == _LOAD:
        yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        is_map = field.message_type.GetOptions().map_entry
        parts = value.values() if is_map else [value] if hasattr(value, "DESCRIPTOR") else value
        for part in parts:
            if hasattr(part, "DESCRIPTOR"):
                yield from _loads(part)


def is_cached(frame: DataFrame) -> bool:
    """Whether the user has cached a DataFrame of a Connect session, or its rows are in its plan."""
    plan: Any = frame._plan
    client: Any = frame.sparkSession.client
    relation = plan.plan(client)
    while relation.WhichOneof("rel_type") in ("subquery_alias", "project", "to_df", "with_columns"):
        relation = getattr(relation, relation.WhichOneof("rel_type")).input
    if relation.WhichOneof("rel_type") in ("local_relation", "range"):
        return True
    level = frame.storageLevel
    return bool(level.useMemory or level.useDisk)
