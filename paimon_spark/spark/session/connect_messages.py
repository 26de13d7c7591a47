"""Messages of Spark Connect's protocol as this package finds them in plans: their names, and the loads of Paimon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paimon_spark.spark.session.session_settings import is_paimon_format

RELATION = "spark.connect.Relation"
RELATION_COMMON = "spark.connect.RelationCommon"
READ = "spark.connect.Read"
LOAD = "spark.connect.Read.DataSource"
SUBQUERY_ALIAS = "spark.connect.SubqueryAlias"
SUBQUERY = "spark.connect.SubqueryExpression"
EXPRESSION_STRING = "spark.connect.Expression.ExpressionString"
UNRESOLVED_ATTRIBUTE = "spark.connect.Expression.UnresolvedAttribute"
UNRESOLVED_STAR = "spark.connect.Expression.UnresolvedStar"
UNRESOLVED_REGEX = "spark.connect.Expression.UnresolvedRegex"


def messages(message: Any, kind: str) -> Iterator[Any]:
    """The messages of a kind anywhere in a message, itself among them."""
    if message.DESCRIPTOR.full_name == kind:
        yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        is_map = field.message_type.GetOptions().map_entry
        parts = value.values() if is_map else [value] if hasattr(value, "DESCRIPTOR") else value
        for part in parts:
            if hasattr(part, "DESCRIPTOR"):
                yield from messages(part, kind)


def is_paimon_load(load: Any) -> bool:
    """Whether a load (``Read.DataSource``) is one of ``format("paimon")``."""
    return is_paimon_format(load.format)


def paimon_loads(message: Any) -> Iterator[Any]:
    """The loads of Paimon anywhere in a message."""
    return filter(is_paimon_load, messages(message, LOAD))


def load_options(load: Any) -> dict[str, str]:
    """The options of a load, its path among them."""
    return {**load.options, **({"path": load.paths[0]} if load.paths else {})}


def copied(message: Any) -> Any:
    """A copy of a message, which may be changed."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy
