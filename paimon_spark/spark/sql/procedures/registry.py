"""All procedures, by name. A new one is a function with `@procedure` in a module of this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from types import ModuleType

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.sql.procedures.procedure import Procedure
from paimon_spark.table.filesystem_catalog import SYSTEM_DATABASE

HIDDEN_PREFIX = "__"
"""Names that stand for statements of another grammar; no list shows them."""


def _procedures_of(module: ModuleType) -> Iterator[Procedure]:
    for value in vars(module).values():
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Procedure):
                yield each


@cache
def procedures() -> Mapping[str, Procedure]:
    """Return all procedures by name. Their modules are imported by the first CALL."""
    from paimon_spark.spark.sql import foreign_statements
    from paimon_spark.spark.sql.procedures import statement_procedures, tags, upkeep

    modules = (tags, upkeep, statement_procedures, foreign_statements)
    return {each.name: each for module in modules for each in _procedures_of(module)}


_FUNCTIONS = (
    "functions here are those of SQL: CREATE FUNCTION … RETURN … and DROP FUNCTION in a catalog with 'metastore' = "
    "'rest', CREATE TEMPORARY FUNCTION or spark.udf.register for a session"
)
_GLOBAL_INDEX = (
    "global indexes are not built here: a file index (option file-index.bloom-filter.columns, then CALL "
    f"{SYSTEM_DATABASE}.rewrite_file_index) lets reads skip files"
)
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("create_function", "alter_function", "drop_function"), _FUNCTIONS),
    **dict.fromkeys(("create_global_index", "drop_global_index"), _GLOBAL_INDEX),
    "compact_chain_table": (
        f"chain tables are not supported: CALL {SYSTEM_DATABASE}.compact compacts each of the tables of a chain"
    ),
}
"""Procedures of the official connector that are not there, and why."""


def procedure_names() -> list[str]:
    """Return the names that a user can call, sorted."""
    return sorted(name for name in procedures() if not name.startswith(HIDDEN_PREFIX))


def find_procedure(name: str, *, namespace: str = SYSTEM_DATABASE) -> Procedure:
    """Return the procedure of a name. Names and namespaces ignore case.

    Raises:
        UnsupportedError: there is none; the message names those there are, or says why this one is not there.
    """
    ours = namespace.lower() == SYSTEM_DATABASE
    if ours and name.lower() in REFUSED:
        raise UnsupportedError(f"Procedure {namespace}.{name} is not supported: {REFUSED[name.lower()]}.")
    found = procedures().get(name.lower()) if ours else None
    if found is None:
        near = get_close_matches(name.lower(), procedure_names(), 1)
        known = ", ".join(procedure_names())
        advice = f"Did you mean {SYSTEM_DATABASE}.{near[0]}?" if near else f"In {SYSTEM_DATABASE} there are: {known}."
        raise UnsupportedError(f"There is no procedure {'.'.join(filter(None, (namespace, name)))}. {advice}")
    return found
