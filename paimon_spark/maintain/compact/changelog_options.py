"""What the options of changelog producers say about changelogs of compactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions


def ignored_columns(options: CoreOptions) -> frozenset[str] | None:
    """The columns whose change alone is no change; None where a row that is merged anew counts as changed.

    Java: ``changelog-producer.row-deduplicate`` and ``changelog-producer.row-deduplicate-ignore-fields``.
    """
    if not options.value("changelog-producer.row-deduplicate"):
        return None
    names = options.value("changelog-producer.row-deduplicate-ignore-fields")
    return frozenset(name.strip() for name in str(names or "").split(",") if name.strip())
