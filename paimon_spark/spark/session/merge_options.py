"""The options of a write that say how the columns of a table become those of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_spark.errors import OptionError
from paimon_spark.spec.schema_merge import MergeRules

MERGE_SCHEMA: Final = "write.merge-schema"
MERGE_KEYS: Final = (MERGE_SCHEMA, f"{MERGE_SCHEMA}.type-widening", f"{MERGE_SCHEMA}.explicit-cast")
"""Each counts only where the one before it is true."""


def merge_rules(*layers: Mapping[str, str]) -> MergeRules | None:
    """How a write changes the table's columns; None where it does not.

    Args:
        layers: options in Paimon's spelling, in any case; later ones win.

    Raises:
        OptionError: a value is neither true nor false.
    """
    given = {key.lower(): value for layer in layers for key, value in layer.items() if key.lower() in MERGE_KEYS}
    merges, widens, explicit = (_is_true(key, given.get(key, "false")) for key in MERGE_KEYS)
    return MergeRules(widen=widens, explicit=widens and explicit) if merges else None


def merge_options(rules: MergeRules) -> dict[str, str]:
    """The options that say so."""
    return {key: str(value).lower() for key, value in zip(MERGE_KEYS, (True, rules.widen, rules.explicit), strict=True)}


def _is_true(key: str, text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(f"option '{key}' is true or false, not '{text}'")
    return text.strip().lower() == "true"
