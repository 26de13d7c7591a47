"""A planned read of a table's rows: which columns it has, and the reader that tasks run."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paimon_spark.read.metadata_columns import FILE_PATH, metadata_fields, prune_by_metadata, refuse_merged_splits
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.table_scan import TableScan, describe_source
from paimon_spark.spark.columns.types import spark_arrow_schema, to_spark_struct
from paimon_spark.spark.source.reader import PaimonReader, task_slots
from paimon_spark.spark.source.source_options import match_columns, read_columns, row_condition
from paimon_spark.spark.source.system_read import row_view_of
from paimon_spark.spec.predicate import Leaf
from paimon_spark.spec.sql_text import short_filter_text
from paimon_spark.table.table import load_table, reopened

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from paimon_spark.read.table_scan import ReadPlan
    from paimon_spark.spark.source.source_options import ReadRequest
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable


@dataclass(frozen=True)
class TableRead:
    """What a request reads, with one snapshot or range of changes chosen."""

    request: ReadRequest
    scan: TableScan
    metadata: tuple[DataField, ...]
    """Metadata columns that the request can name."""

    @classmethod
    def of(cls, request: ReadRequest, opened: FileStoreTable | None = None) -> TableRead:
        """Open the table, and choose what is read of its history.

        Args:
            request: the load.
            opened: the table, if the statement has opened it already.

        Raises:
            TableNotFoundError: there is no table at the path.
            UnsupportedError: the table cannot be read yet.
        """
        table = opened_for(request, opened)
        scan = replace(TableScan.of(table, row_view_of(request), snapshot_id=request.snapshot_id), whole_files=False)
        own = {field.name for field in scan.columns}
        fields = metadata_fields(table.schema) if scan.view is ROWS else ()
        return cls(request, scan, tuple(field for field in fields if field.name not in own))

    def fields(self) -> list[DataField]:
        """The columns that the request chooses from: metadata columns come where it names them."""
        return [*self.scan.columns, *(() if self.request.columns is None else self.metadata)]

    def locations(self, *names: str) -> list[DataField]:
        """Metadata columns by their names; those are missing whose names columns of the table have."""
        return [field for name in names for field in self.metadata if field.name == name]

    def reader(self, schema: StructType, files: Collection[str] | None = None) -> PaimonReader:
        """Plan the tasks.

        Args:
            schema: the columns to read.
            files: paths of the data files to read; None for all.

        Raises:
            SchemaMismatchError: a column of `schema` is not in the table, or has another type there.
        """
        plan, names, metadata = self._planned(schema)
        if files is not None:
            plan = prune_by_metadata(plan, [Leaf("in", FILE_PATH, tuple(files))])
        refuse_merged_splits(plan.table, plan.splits, metadata)
        return PaimonReader(plan, spark_arrow_schema(schema), names=names, metadata=metadata)

    def describe(self) -> str:
        """For EXPLAIN: columns, the filter, the snapshot, the files that are left."""
        plan, names, _ = self._planned(to_spark_struct(read_columns(self.fields(), self.request.columns)))
        parts = [f"columns=[{', '.join(names)}]"]
        if plan.residual is not None:
            parts.append(f"filter=[{short_filter_text(plan.residual)}]")
        parts.append(describe_source(self.scan.source))
        files = {file.path for split in plan.splits for file in split.files}
        return f"{', '.join(parts)}, files={len(files)}, splits={len(plan.splits)}"

    def _planned(self, schema: StructType) -> tuple[ReadPlan, list[str], list[str]]:
        """The plan of a read, the columns of its rows, and the metadata columns among them."""
        scan, condition = self.scan, self.request.filter
        names = match_columns([*scan.columns, *self.metadata], schema)
        own = {field.name for field in scan.columns}
        metadata = [name for name in names if name not in own]
        predicate = None if condition is None else row_condition(condition, scan.columns, self.request.settings)
        columns = [name for name in names if name in own]
        plan = scan.select(columns=columns, predicate=predicate, parallelism=task_slots()).plan()
        return plan, names, metadata


def scans_text(lines: Iterable[str]) -> str:
    """What stands behind Spark's plan on Connect, whose scans of Python sources say nothing: a line for each scan."""
    return "\n".join(["== Paimon Scans ==", *lines, ""])


def opened_for(request: ReadRequest, opened: FileStoreTable | None) -> FileStoreTable:
    """The table that a load names, with its options; `opened` if the statement has opened it already.

    Raises:
        TableNotFoundError: there is no table at the path.
    """
    if opened is None:
        return load_table(request.name, options=request.options)
    return reopened(opened, request.options)
