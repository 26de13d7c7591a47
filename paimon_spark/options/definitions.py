"""The definitions of all options: `options.csv`, one row an option, and `refusals.csv`, the values that are refused.

An empty cell means none. Defaults are written as a user writes a value (`128 mb`, `10 s`); `''` is the empty text.
Several values of a cell have spaces between them.
"""

from __future__ import annotations

import csv
import pkgutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from paimon_spark.options.option import Option, OptionKind, Refusal, Scope, Stage

_EMPTY_TEXT = "''"


def defined_options() -> Iterator[Option]:
    """Yield the options, in the order of the table."""
    refusals: defaultdict[str, list[Refusal]] = defaultdict(list)
    for row in _rows("refusals.csv"):
        values = {"only": tuple(row["only"].split()), "unless": tuple(row["unless"].split())}
        refusals[row["key"]].append(Refusal(Stage[row["stage"].upper()], row["advice"], **values))
    for row in _rows("options.csv"):
        option = Option(
            key=row["key"],
            type=OptionKind(row["kind"]),
            default=None,
            description=row["description"],
            fallback_keys=tuple(row["fallback_keys"].split()),
            immutable=row["immutable"] == "yes",
            scope=Scope(row["scope"]),
            choices=tuple(row["choices"].split()),
            honoured=row["honoured"] == "yes",
            refusals=tuple(refusals.get(row["key"], ())),
            instead=row["instead"] or None,
        )
        yield replace(option, default=_default(option, row["default"]))


def _default(option: Option, text: str) -> Any:
    if not text:
        return None
    value = option.parse("" if text == _EMPTY_TEXT else text)
    return MappingProxyType(value) if isinstance(value, dict) else value


def _rows(name: str) -> Iterator[dict[str, str]]:
    data = pkgutil.get_data(__package__, name)
    assert data is not None
    yield from csv.DictReader(data.decode().splitlines())
