"""The columns that a query can name. Only these are read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from paimon_spark.errors import UnsupportedError
from paimon_spark.read.metadata_columns import metadata_fields
from paimon_spark.spark.source.source_options import COLUMNS
from paimon_spark.spark.sql.warehouses import quoted
from paimon_spark.spark.text.parsing import Kind, Token
from paimon_spark.spec.filter_text import quoted_name

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.schema import TableSchema

_PATTERN_SIGNS = frozenset("()*+?|[]")


def has_pipe(tokens: Sequence[Token]) -> bool:
    """Return whether a query has pipes (``|>``), which sqlglot may parse in another way."""
    return any(token.is_sign("|>") for token in tokens) or any(
        a.is_sign("|") and b.is_sign(">") for a, b in pairwise(tokens)
    )


def names_of_columns(tokens: Sequence[Token]) -> frozenset[str] | None:
    """Return the words that could be columns, in lower case; None where patterns or expressions may name columns."""
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.kind is Kind.QUOTED and _PATTERN_SIGNS & set(token.text):
            return None
        if token.is_word("IDENTIFIER") and following is not None and following.is_sign("("):
            return None
    return frozenset(token.text.lower() for token in tokens)


def metadata_columns(schema: TableSchema, tokens: Sequence[Token]) -> list[str]:
    """Return the metadata columns that a query names and that no column of the table hides."""
    named = {token.text.lower() for token in tokens}
    own = {field.name.lower() for field in schema.fields}
    names = [field.name for field in metadata_fields(schema)]
    return [name for name in names if name.lower() in named and name.lower() not in own]


def columns_option(
    table: Sequence[str], fields: Sequence[DataField], names: frozenset[str] | None, metadata: Sequence[str]
) -> dict[str, str]:
    """Return the option `columns` with those columns that the query may name.

    Raises:
        UnsupportedError: metadata columns are named beside a ``*``, which would have them too.
    """
    if names is None:
        if metadata:
            raise UnsupportedError(
                f"column {metadata[0]} of {quoted(table)} is not supported in a query that has * , column "
                "names behind an alias, NATURAL or USING, or |> : name each column that is wanted"
            )
        return {}
    wanted = [field.name for field in fields if field.name.lower() in names] or [fields[0].name]
    if len(wanted) == len(fields) and not metadata:
        return {}
    return {COLUMNS: ", ".join(quoted_name(name) for name in (*wanted, *metadata))}
