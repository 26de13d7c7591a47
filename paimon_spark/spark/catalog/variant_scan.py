"""What a scan reads of VARIANT columns, told by an optimizer rule (``PaimonVariantPaths``): the paths of the query.

The files' typed columns of other paths are not read, so values may lack other fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from paimon_spark.read.row_views import ROWS
from paimon_spark.spec import data_types as t
from paimon_spark.spec.snapshot import Snapshot

if TYPE_CHECKING:
    from paimon_spark.spark.catalog.scan_plan import ScanPlan

Path = tuple[str, ...]
Touched = Mapping[Path, tuple[Path, ...]]
"""By the names of a VARIANT, those of the ROWs that it is in first: the paths of its fields that are wanted."""


def touched_paths(asked: str) -> dict[Path, tuple[Path, ...]]:
    """What the rule tells: JSON of pairs of names and paths."""
    given: list[Any] = json.loads(asked)
    return {tuple(names): tuple(sorted({tuple(path) for path in paths})) for names, paths in given}


def may_touch_less(plan: ScanPlan) -> bool:
    """Whether a scan reads VARIANTs, and does not know yet which paths of them are wanted."""
    kinds = (column.type for column in plan.view.fields(plan.table) if column.name in plan.struct.names)
    return not plan.touched and any(t.contains_type(kind, t.VariantType) for kind in kinds)


def touching(plan: ScanPlan, touched: Touched) -> ScanPlan | None:
    """The scan of the same files that reads these paths only; None where the whole values count.

    Changes between two snapshots are found by comparing whole values.
    """
    if plan.view is not ROWS or not isinstance(plan.source, Snapshot):
        return None
    return plan.of_paths(touched)


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
