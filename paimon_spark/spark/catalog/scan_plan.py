"""What one scan of the catalog reads: columns, rows, files. No JVM here; runs on the driver.

A scan is planned when it is first asked for its files, on the snapshot of that moment, and stays on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark

from paimon_spark.read.metadata_columns import (
    FILE_PATH,
    METADATA_COLUMNS,
    file_names_of,
    metadata_fields,
    prune_by_metadata,
    pruned_metadata_fields,
    refuse_merged_splits,
    row_id_predicate,
)
from paimon_spark.read.plain_files import holds_plain_rows
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.small_files import are_many_and_small
from paimon_spark.read.table_scan import ReadSource, RowView, TableScan, describe_source, resolve_source
from paimon_spark.spark.columns.types import default_size, spark_arrow_schema, to_spark_type
from paimon_spark.spark.source.reader import PaimonReader, task_slots
from paimon_spark.spec import data_types as t
from paimon_spark.spec.predicate import Predicate, all_of
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.sql_text import short_filter_text
from paimon_spark.table.manifest_store import ScanMetrics, measured_scan
from paimon_spark.table.support import check_readable

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit
    from paimon_spark.read.table_scan import ReadPlan
    from paimon_spark.table.table import FileStoreTable


@dataclass(frozen=True)
class ScanPlan:
    """The columns and rows of a scan; its snapshot and files are found on first use."""

    table: FileStoreTable
    """With the options of the read and the columns that Spark was given."""
    struct: spark.StructType
    """The columns that come out: of the table, in full or with fewer nested fields, and metadata columns."""
    predicates: tuple[Predicate, ...] = field(default=())
    """Rows that come out are those for which all are true."""
    metadata_predicates: tuple[Predicate, ...] = field(default=())
    """Metadata columns (the file, the bucket) of the rows that come out make these true."""
    limit: int | None = None
    """More rows than these are not needed."""
    view: RowView = ROWS
    """The rows of the table, or its audit log, ..."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Options of the read that mean something else for streams, or only for them: then a batch refuses them."""
    touched: Touched = field(default_factory=dict)
    """Paths of VARIANT columns that are wanted; of those that are not named, the whole values."""
    only_partitions: frozenset[bytes] | None = None
    """No other partitions are read, if they are known."""
    stream_start: Mapping[str, str] | None = None
    """Options by which a stream of changes begins; None if the changes that are asked for have an end."""
    known_source: tuple[ReadSource] | None = None
    """The source, where it has been looked up before."""
    known_plan: ReadPlan | None = None
    """Snapshot and files, where they are known already."""
    known_planning: ScanMetrics | None = None
    """What planning looked at, where this scan was planned as another one."""
    unfiltered: list[ScanPlan] = field(default_factory=list, compare=False, repr=False)
    """The first scan that is `after` this one and reads all its rows."""

    @cached_property
    def read_table(self) -> FileStoreTable:
        """The table with all options of the read, which is a batch."""
        check_readable(self.table.schema)
        table = self.table.with_options(self.given)
        check_readable(table.schema)
        return table

    @cached_property
    def source(self) -> ReadSource:
        """The snapshot that is read, or the changes."""
        return self.known_source[0] if self.known_source else resolve_source(self.read_table)[1]

    @property
    def predicate(self) -> Predicate | None:
        """All predicates as one; None without any."""
        return all_of(self.predicates) if self.predicates else None

    @property
    def plan(self) -> ReadPlan:
        """Snapshot and files, read from the manifests once.

        Raises:
            TableNotFoundError: the table had no snapshot when it was loaded, and has been dropped since.
        """
        return self._measured_plan[0] if self.known_plan is None else self.known_plan

    @property
    def planning(self) -> ScanMetrics | None:
        """What planning looked at; None where the files were known before."""
        return self._measured_plan[1] if self.known_plan is None else self.known_planning

    @cached_property
    def _measured_plan(self) -> tuple[ReadPlan, ScanMetrics]:
        with measured_scan() as metrics:
            return self._planned(), metrics

    def _planned(self) -> ReadPlan:
        if self.source is None:
            self.table.snapshots.check_table_there()
        columns = tuple(self._read_fields())
        table, source = self.read_table, self.source
        scan = TableScan(table, source, self.view, columns, self.predicate, task_slots(), self.limit)
        row_ids, names = row_id_predicate(self.metadata_predicates), file_names_of(self.metadata_predicates)
        plan = replace(scan, whole_files=False, row_ids=row_ids, file_names=names).plan()
        if self.metadata_predicates:
            plan = prune_by_metadata(plan, self.metadata_predicates)
        plan = self._of_known_partitions(plan)
        refuse_merged_splits(self.table, plan.splits, self.metadata)
        return plan

    @cached_property
    def has_plain_rows(self) -> bool:
        """Whether any reader of Parquet finds the rows in the files."""
        return holds_plain_rows(self.plan)

    @property
    def partition_columns_are_last(self) -> bool:
        """Whether the columns come out as Spark's reader of files gives them: constants of files are last of all."""
        keys, metadata = self.table.schema.partition_keys, self.metadata
        return self.struct.names == sorted(self.struct.names, key=lambda name: (name in metadata, name in keys))

    @property
    def metadata(self) -> tuple[str, ...]:
        """Names of the metadata columns that come out."""
        own = {column.name for column in self.view.fields(self.table)}
        return tuple(name for name in self.struct.names if name in METADATA_COLUMNS and name not in own)

    def narrowed(self, predicates: tuple[Predicate, ...], metadata_predicates: tuple[Predicate, ...] = ()) -> ScanPlan:
        """The same scan of the same snapshot, with more predicates."""
        return replace(
            self.of_columns(self.struct),
            predicates=(*self.predicates, *predicates),
            metadata_predicates=(*self.metadata_predicates, *metadata_predicates),
        )

    def of_columns(self, struct: spark.StructType) -> ScanPlan:
        """The same scan of the same snapshot, not planned yet, with these columns."""
        return replace(self, struct=struct, known_source=(self.source,), known_plan=None, known_planning=None)

    def rows_text(self) -> str | None:
        """What decides which rows come out, whatever the columns; None of a scan of few rows, or of some paths."""
        if self.limit is not None or self.touched or not isinstance(self.source, Snapshot):
            return None
        table = self.table
        filters = self.predicates, self.metadata_predicates, self.only_partitions
        given = sorted(self.given.items()), sorted((self.stream_start or {}).items())
        return repr((table.path, table.branch, table.schema, self.source.id, self.view.name, filters, given))

    @property
    def filterable(self) -> list[str]:
        """The columns that come out by which planning leaves out files: of partitions, and some metadata columns."""
        schema = self.table.schema
        known = (*schema.partition_keys, *(column.name for column in pruned_metadata_fields(schema)))
        return [name for name in known if name in self.struct.names and self.view is ROWS]

    @property
    def partitions(self) -> list[bytes]:
        """The partitions that are read, each once, in the order of the plan."""
        return list(dict.fromkeys(split.partition for split in self.plan.splits))

    def of_partitions(self, wanted: frozenset[bytes]) -> ScanPlan:
        """The same scan of the same files, as far as they are in these partitions."""
        found = replace(self.of_columns(self.struct), only_partitions=wanted)
        return replace(found, known_plan=found._of_known_partitions(self.plan))

    def _of_known_partitions(self, plan: ReadPlan) -> ReadPlan:
        wanted = self.only_partitions
        if wanted is None:
            return plan
        return replace(plan, splits=tuple(split for split in plan.splits if split.partition in wanted))

    def of_paths(self, touched: Touched) -> ScanPlan | None:
        """The same scan of the same files, of which only some paths of VARIANT columns are wanted.

        None where the whole values count (changes between two snapshots are found by comparing them), and where the
        paths are known already: a rule that always found another scan would never end.
        """
        if self.touched or self.view is not ROWS or not isinstance(self.source, Snapshot):
            return None
        found = replace(self.of_columns(self.struct), touched=touched)
        if not self.is_planned:
            return found
        return replace(found, known_plan=replace(self.plan, fields=tuple(found._read_fields())))

    @property
    def is_planned(self) -> bool:
        """Whether its files are known."""
        return self.known_plan is not None or "_measured_plan" in vars(self)

    def on(self, source: ReadSource) -> ScanPlan:
        """This scan with a source that is known already, which is not looked up again."""
        return replace(self, known_source=(source,))

    def of(self, plan: ReadPlan, tasks: Iterable[Iterable[DataSplit]]) -> ScanPlan:
        """This scan with splits that a stream has planned already."""
        return replace(self, known_plan=replace(plan, splits=tuple(chain.from_iterable(tasks))))

    def as_if(self, options: Mapping[str, str]) -> ScanPlan:
        """The scan of the same files, whose table has other options: `FileStoreTable.as_if`."""
        plan = replace(self.plan, table=self.plan.table.as_if(options))
        return replace(self, table=self.table.as_if(options), known_plan=plan)

    def with_splits(self, splits: Iterable[DataSplit]) -> ScanPlan:
        """This scan with splits of the same rows."""
        return replace(self, known_plan=replace(self.plan, splits=tuple(splits)))

    def of_splits(self, wanted: Iterable[DataSplit]) -> tuple[ScanPlan, ScanPlan]:
        """This scan with these of its splits, and with the others."""
        plan, chosen = self.plan, {id(split) for split in wanted}
        parts = [tuple(s for s in plan.splits if (id(s) in chosen) == of_first) for of_first in (True, False)]
        first, second = (replace(self, known_plan=replace(plan, splits=splits)) for splits in parts)
        return first, second

    def after(self, first: ScanPlan) -> ScanPlan:
        """This scan with the source of an earlier one of the same relation, and with its files if they are the same.

        They are where both read all rows of one snapshot, and the columns make no difference: in plain files.
        """
        found = self.on(first.source)
        unfiltered = not (self.predicates or self.metadata_predicates or self.limit is not None or self.metadata)
        if not unfiltered or not isinstance(found.source, Snapshot):
            return found
        if not first.unfiltered:
            first.unfiltered.append(found)
        return found.planned_as(first.unfiltered[0])

    def planned_as(self, other: ScanPlan) -> ScanPlan:
        """This scan with the files of another of the same rows, where they are known and are plain files.

        In plain files the columns make no difference.
        """
        filters = self.predicates, self.metadata_predicates, self.limit
        of_same_rows = filters == (other.predicates, other.metadata_predicates, other.limit) and not self.metadata
        if other is self or not of_same_rows or not other.is_planned or not other.has_plain_rows:
            return self
        plan = replace(other.plan, table=self.read_table, fields=tuple(self._read_fields()))
        return replace(self, known_source=(other.source,), known_plan=plan, known_planning=other.planning)

    def reader(self) -> PaimonReader:
        """What tasks run."""
        return PaimonReader(self.plan, spark_arrow_schema(self.struct), names=self.struct.names, metadata=self.metadata)

    @cached_property
    def row_count(self) -> int:
        """Rows of the files, before merging and filters that look at rows."""
        return sum(split.row_count for split in self.plan.splits)

    @cached_property
    def has_many_small_files(self) -> bool:
        """Whether opening the files is what takes time."""
        return are_many_and_small(self.table, self.plan.splits)

    @property
    def merges(self) -> bool:
        """Whether fewer rows may come out than the files hold."""
        return any(not getattr(split, "raw_convertible", False) for split in self.plan.splits)

    @property
    def size_bytes(self) -> int:
        """What Spark should think the rows weigh."""
        return self.size_of(self.row_count)

    def size_of(self, rows: int) -> int:
        """What Spark should think so many rows weigh, in bytes."""
        width = sum(default_size(column.dataType) for column in self.struct.fields)
        return max(1, rows * (8 + width))

    @property
    def file_names(self) -> list[str]:
        """The files that are read, each once, in the order of the plan."""
        return list(dict.fromkeys(file.name for split in self.plan.splits for file in split.files))

    def sizes(self) -> str:
        """For EXPLAIN and Spark's UI: how much is read, and whether rows are merged."""
        metrics = self.metrics()
        parts = [f"bytes={metrics['resultedTableBytes']}", f"splits={metrics['numSplits']}"]
        if self.table.schema.partition_keys:
            parts.append(f"read partitions={metrics['numPartitions']}")
        if metrics["mergedSplits"]:
            parts.append(f"merged splits={metrics['mergedSplits']}")
        return ", ".join(parts)

    def metrics(self) -> dict[str, int]:
        """For Spark's UI: values of `SCAN_METRICS`."""
        splits, planning = self.plan.splits, self.planning
        files = {file.name: file.size for split in splits for file in split.files}
        snapshot = self.plan.snapshot
        return {
            **({} if snapshot is None else {"scannedSnapshotId": snapshot.id}),
            "resultedTableFiles": len(files),
            "resultedTableBytes": sum(files.values()),
            "numSplits": len(splits),
            "mergedSplits": sum(not getattr(split, "raw_convertible", False) for split in splits),
            "numPartitions": len(self.partitions),
            **({} if planning is None else _planning_metrics(planning, len(files))),
        }

    def describe(self) -> str:
        """For EXPLAIN: columns, the filter that our reader evaluates, and the files that are left."""
        parts = [f"columns=[{', '.join(_shown(self.struct))}]"]
        if self.touched:
            parts.append(f"variants=[{shown_paths(self.touched)}]")
        if self.predicate is not None:
            parts.append(f"filter=[{short_filter_text(self.predicate)}]")
        if self.metadata_predicates:
            parts.append(f"files=[{short_filter_text(all_of(self.metadata_predicates))}]")
        if self.only_partitions is not None:
            parts.append(f"partitions={len(self.only_partitions)}")
        if self.limit is not None:
            parts.append(f"limit={self.limit}")
        parts.append(describe_source(self.source))
        return f"{', '.join(parts)}, files={len(self.file_names)}"

    def _read_fields(self) -> list[t.DataField]:
        """The columns of the struct; rows are narrowed to the nested fields wanted where nothing is merged."""
        known = {column.name: column for column in self.view.fields(self.table)}
        wanted = [(known[f.name], f.dataType) for f in self.struct.fields if f.name in known]
        if self.table.schema.primary_keys or self.view is not ROWS:
            return with_paths([column for column, _ in wanted], self.touched)
        narrowed = [replace(column, type=_narrowed(column.type, shown)) for column, shown in wanted]
        return with_paths(narrowed, self.touched)


def _planning_metrics(planning: ScanMetrics, files: int) -> dict[str, int]:
    return {
        "planningDuration": planning.millis,
        "scannedManifests": planning.manifests,
        "skippedTableFiles": max(planning.live_files - files, 0),
    }


def cheapest_column(struct: spark.StructType, partition_keys: tuple[str, ...]) -> spark.StructType:
    """One column to count rows by: a partition column, else the narrowest."""
    first = min(struct.fields, key=lambda f: (f.name not in partition_keys, default_size(f.dataType)))
    return spark.StructType([first])


def partition_columns_last(struct: spark.StructType, partition_keys: tuple[str, ...]) -> spark.StructType:
    """The columns in the order in which Spark's reader of files gives them."""
    return spark.StructType(sorted(struct.fields, key=lambda c: (c.name == FILE_PATH, c.name in partition_keys)))


def _narrowed(data_type: t.DataType, shown: spark.DataType) -> t.DataType:
    """A type with only the nested fields that its Spark form has."""
    match data_type, shown:
        case t.RowType(), spark.StructType():
            known = {nested.name: nested for nested in data_type.fields}
            kept = [replace(known[f.name], type=_narrowed(known[f.name].type, f.dataType)) for f in shown.fields]
            return replace(data_type, fields=tuple(kept))
        case t.ArrayType(), spark.ArrayType():
            return replace(data_type, element=_narrowed(data_type.element, shown.elementType))
        case t.MapType(), spark.MapType():
            return replace(data_type, value=_narrowed(data_type.value, shown.valueType))
    return data_type


def _shown(struct: spark.StructType) -> list[str]:
    return [
        f"{f.name}:{f.dataType.simpleString()}" if isinstance(f.dataType, spark.StructType) else f.name
        for f in struct.fields
    ]


def metadata_struct(table: FileStoreTable) -> spark.StructType:
    """The metadata columns of a table that none of its own columns hides, as Spark columns."""
    own = {column.name for column in table.schema.fields}
    return spark.StructType(
        [
            spark.StructField(column.name, to_spark_type(column.type), column.type.nullable)
            for column in metadata_fields(table.schema)
            if column.name not in own
        ]
    )


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
