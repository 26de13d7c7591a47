"""Reading the splits of two branches in tasks, each with the schemas and the merge engine of its branch.

Light, since every task of a read imports it; `branches` plans such reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.read.plan import ReadSplit
    from paimon_spark.read.split import DataSplit
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.table.table import FileStoreTable


@dataclass(frozen=True)
class BranchRead:
    """Reads the splits of two branches, each with its own schemas and merge engine. Picklable."""

    own: ReadSplit
    """Reads the splits of the plan's table."""
    table: FileStoreTable
    """The other branch, whose splits carry its name."""
    other: ReadSplit
    """Reads the splits of the other branch."""

    def __call__(
        self,
        table: FileStoreTable,
        split: DataSplit,
        plan_fields: Sequence[DataField],
        predicate: Predicate | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read one split, as `read_split` does."""
        return self.of(split)(table if split.branch is None else self.table, split, plan_fields, predicate)

    def of(self, split: DataSplit) -> ReadSplit:
        """Return what reads a split."""
        return self.own if split.branch is None else self.other
