"""Which paths of VARIANT columns a read wants; its values may lack other fields. Runs on the driver."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from paimon_spark.spec import data_types as t

Path = tuple[str, ...]
Touched = Mapping[Path, tuple[Path, ...]]
"""By the names of a VARIANT, those of the ROWs that it is in first: the paths of its fields that are wanted."""


def touched_paths(answer: str) -> dict[Path, tuple[Path, ...]]:
    """The paths that a query touches, of JSON: pairs of names and paths."""
    given: list[Any] = json.loads(answer)
    return {tuple(names): tuple(sorted({tuple(path) for path in paths})) for names, paths in given}


def with_paths(columns: Iterable[t.DataField], touched: Touched) -> list[t.DataField]:
    """Columns of a read whose VARIANTs say which paths are wanted."""
    return [replace(column, type=_with_paths(column.type, (column.name,), touched)) for column in columns]


def _with_paths(kind: t.DataType, names: Path, touched: Touched) -> t.DataType:
    match kind:
        case t.VariantType() if names in touched:
            return replace(kind, paths=touched[names])
        case t.RowType():
            inner = [replace(f, type=_with_paths(f.type, (*names, f.name), touched)) for f in kind.fields]
            return replace(kind, fields=tuple(inner))
    return kind


def shown_paths(touched: Touched) -> str:
    """For EXPLAIN: the paths of each column."""
    return ", ".join(f"{'.'.join(names)}=[{', '.join('.'.join(path) for path in touched[names])}]" for names in touched)
