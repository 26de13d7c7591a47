"""Spark's own vectorised Parquet reader over exactly the files of a plan, where these files are the rows of the table.

Rows then never pass through Python: reading costs what ``spark.read.parquet`` costs. What Spark would find out of the
files' directories is not asked for: which files there are, how large they are and where they are cut is in the plan.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError

from paimon_spark.read.plain_files import holds_plain_rows
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject, Proxy
from paimon_spark.spec.data_types import DoubleType, FloatType
from paimon_spark.storage.local_files import local_path

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit, SplitFile
    from paimon_spark.spark.jvm.scan_plan import ScanPlan

_LOG = logging.getLogger(__name__)

_READ: Final = "org.apache.spark.sql.connector.read"
_DATASOURCES: Final = "org.apache.spark.sql.execution.datasources"
_FILTER: Final = "org.apache.spark.sql.sources.Filter"
MOST_FILES: Final = 2000
"""Each file costs the driver two calls of the JVM (half a millisecond)."""
_OPTIONS: Final = {
    "mergeSchema": "false",
    "recursiveFileLookup": "true",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}


class NativeBatchProxy(Proxy):
    """The batch of one scan: partitions that hold files, and the factory of Spark's Parquet readers."""

    interfaces = (f"{_READ}.Batch",)

    def __init__(self, gateway: Gateway, partitions: JavaObject, factory: JavaObject) -> None:
        super().__init__(gateway)
        self._partitions = partitions
        self._factory = factory

    def planInputPartitions(self) -> JavaObject:
        """``FilePartition``s, each for one task."""
        return self._partitions

    def createReaderFactory(self) -> JavaObject:
        """The factory of a ``ParquetScan``."""
        return self._factory


def native_batch(
    gateway: Gateway,
    schema: JavaObject,
    scan: ScanPlan,
    partitions: Sequence[Sequence[DataSplit]],
    pushed: Sequence[JavaObject],
) -> NativeBatchProxy | None:
    """A batch of Spark's Parquet reader, or None where the scan needs ours.

    Args:
        gateway: the JVM.
        schema: the columns of the scan as the JVM's ``StructType``.
        scan: what is read.
        partitions: the splits of the scan's plan, packed into tasks.
        pushed: V2 predicates that Spark judges once more: they only leave out row groups.
    """
    if not is_native(scan):
        return None
    try:
        factory = _parquet_scan(gateway, schema, _filters(gateway, scan, pushed)).createReaderFactory()
        file_partitions = _FilePartitions(gateway)
        tasks = [file_partitions.of(at, splits) for at, splits in enumerate(partitions)]
        return NativeBatchProxy(gateway, gateway.array(f"{_READ}.InputPartition", tasks), factory)
    except Py4JError as error:
        _LOG.warning("Spark's own Parquet reader cannot be used here, Paimon's is: %s", error)
        return None


def is_native(scan: ScanPlan) -> bool:
    """Whether a scan is left to Spark's Parquet reader: rows of local files as they are, not too many of them."""
    if not scan.table.options.value("read.spark-parquet") or scan.metadata:
        return False
    paths = {file.path for split in scan.plan.splits for file in split.files}
    if not 0 < len(paths) <= MOST_FILES or not all(_is_local(path) for path in paths):
        return False
    return holds_plain_rows(scan.plan)


def _is_local(path: str) -> bool:
    return path.startswith("/") or path[:5].lower() == "file:"


def _filters(gateway: Gateway, scan: ScanPlan, pushed: Sequence[JavaObject]) -> JavaObject:
    """The filters by which Spark may leave out row groups and pages.

    Only such as speak of columns that are read, since a column that is not looks to page filters as if it were null
    everywhere; and of no floating point numbers, since their maxima leave out NaN.
    """
    utils = gateway.jvm.org.apache.spark.sql.internal.connector.PredicateUtils
    usable = {f.name for f in scan.plan.fields if not isinstance(f.type, FloatType | DoubleType)}
    filters = utils.toV1(gateway.array("org.apache.spark.sql.connector.expressions.filter.Predicate", list(pushed)))
    return gateway.array(_FILTER, [f for f in filters if usable.issuperset(f.references())])


def _parquet_scan(gateway: Gateway, schema: JavaObject, filters: JavaObject) -> JavaObject:
    """A ``ParquetScan`` of these columns over no files: its readers take whatever files they are given."""
    execution = gateway.jvm.org.apache.spark.sql.execution.datasources
    convert = gateway.jvm.org.apache.spark.api.python.PythonUtils
    nothing = gateway.jvm.scala.Option.empty()
    cache = gateway.java_class(f"{_DATASOURCES}.NoopCache$").getField("MODULE$").get(None)
    session = gateway.jvm.org.apache.spark.sql.classic.SparkSession.active()
    index = execution.InMemoryFileIndex(
        session,
        convert.toSeq(gateway.jvm.java.util.ArrayList()),
        convert.toScalaMap(gateway.string_map({})),
        gateway.jvm.scala.Option.apply(schema),
        cache,
        nothing,
        nothing,
    )
    builder = execution.v2.parquet.ParquetScanBuilder(session, index, schema, schema, gateway.options(_OPTIONS))
    getattr(builder, "pushedDataFilters_$eq")(filters)
    return builder.build()


class _FilePartitions:
    """Makes ``FilePartition``s; the JVM's classes are looked up once, since each look-up is a call."""

    def __init__(self, gateway: Gateway) -> None:
        jvm = gateway.jvm
        self._gateway = gateway
        self._partition = jvm.org.apache.spark.sql.execution.datasources.FilePartition
        self._file = jvm.org.apache.spark.sql.execution.datasources.PartitionedFile
        self._path = jvm.org.apache.spark.paths.SparkPath.fromPathString
        self._no_values = jvm.org.apache.spark.sql.catalyst.InternalRow.empty()
        self._nowhere = gateway.strings([])
        self._no_constants = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(gateway.string_map({}))

    def of(self, at: int, splits: Sequence[DataSplit]) -> JavaObject:
        """The partition of task `at`."""
        files = [self._partitioned_file(file) for split in splits for file in split.files]
        return self._partition(at, self._gateway.array(f"{_DATASOURCES}.PartitionedFile", files))

    def _partitioned_file(self, file: SplitFile) -> JavaObject:
        """A file, or a share of its bytes: a row group belongs to the share that holds its middle."""
        part, parts = file.row_groups or (0, 1)
        start, end = file.size * part // parts, file.size * (part + 1) // parts
        path = self._path(f"file:{local_path(file.path)}")
        return self._file(self._no_values, path, start, end - start, self._nowhere, 0, file.size, self._no_constants)
