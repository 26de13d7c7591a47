"""Spark's own vectorised Parquet reader over exactly the files of a plan, where these files are the rows of the table.

Rows then never pass through Python: reading costs what ``spark.read.parquet`` costs. What Spark would find out of the
files' directories is not asked for: which files there are, how large they are, where they are cut and what their
partition is, is in the plan. No setting of the session may change the rows, as none changes those of our reader.

The JVM can always open local files. Of other stores Hadoop must have the file system (``hadoop-aws`` and the like,
which the session brings) and the right to read: that is tried once for each store and bucket, with one file of a scan.
Options that we were given are passed on for our scans alone. They do not reach the session's settings, plans and logs.
Hadoop keeps a file system for each scheme and bucket, whatever its settings: so a store with options has a scheme of
its own.

The files of a scan as plain values, of which ``PaimonParquet`` in the JVM makes Spark's ``FilePartition``s.
"""

from __future__ import annotations

import base64
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pyspark.sql.types import StructType

from paimon_spark.errors import PaimonError
from paimon_spark.read.metadata_columns import FILE_PATH
from paimon_spark.read.plain_files import (
    holds_plain_rows,
    may_be_newest_rows,
    may_hold_plain_rows,
    merged_splits,
    newest_row_wins,
    plain_splits,
)
from paimon_spark.read.row_group_sections import cut_by_keys
from paimon_spark.read.split import RowGroups
from paimon_spark.spark.catalog.driver_read import is_small
from paimon_spark.spark.catalog.position_filter import (
    BITS,
    POSITION,
    is_worth_filtering,
    least_far_rows,
    position_filter_of,
)
from paimon_spark.spark.jvm.answer_proxy import Value
from paimon_spark.spark.jvm.gateway import Gateway
from paimon_spark.spark.jvm.plan_tables import active_session
from paimon_spark.spark.jvm.spark_errors import misfit_reason
from paimon_spark.spark.jvm.store_settings import size_of_file
from paimon_spark.spark.jvm.warm_up import read_first
from paimon_spark.spark.source.reader import pack_splits
from paimon_spark.spec.data_types import BigIntType, DataType, DoubleType, FloatType, SmallIntType, TinyIntType
from paimon_spark.spec.predicate import And, Leaf, Not, Or, Predicate, fields
from paimon_spark.storage.confinement import ConfinedFileIO
from paimon_spark.storage.file_io import FsspecFileIO
from paimon_spark.storage.formats import check_sizes
from paimon_spark.storage.hadoop_options import dfs_host, file_system_class, hadoop_options
from paimon_spark.storage.local_files import local_path
from paimon_spark.storage.store_options import redact, scheme_of
from paimon_spark.table.data_layout import DataLayout

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit, SplitFile
    from paimon_spark.spark.catalog.position_filter import PositionFilter
    from paimon_spark.spark.catalog.scan_plan import ScanPlan
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.filesystem_catalog import FilesystemCatalog
    from paimon_spark.table.table import FileStoreTable

_LOG = logging.getLogger(__name__)
_SCHEMES: Final = frozenset(
    {"s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "oss", "cosn", "obs", "hdfs", "viewfs", "webhdfs"}
)
"""Those that Hadoop has file systems for."""
_OTHER_SCHEMES: Final = {"s3": "s3a", "s3n": "s3a", "wasb": "abfs", "wasbs": "abfss"}
"""The scheme of Hadoop's newer file system for the same store."""
_TRY_AGAIN_SECONDS: Final = 300
"""After so long a store that the JVM could not open is tried again."""

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_KINDS: Final[dict[type[DataType], str]] = {TinyIntType: "byte", SmallIntType: "short", BigIntType: "long"}
"""Partition columns whose values JSON does not bring in the class that Spark's rows want."""


@dataclass(frozen=True)
class HadoopFiles:
    """The way to the files of one scan."""

    store: str | None = None
    """The name of the store's settings in ``PaimonStores``; None where those of the session are enough."""
    scheme: str = ""
    """What the scheme of a path is replaced with."""

    def uri(self, path: str) -> str:
        """The URI of a file for Hadoop's ``Path``, without percent encoding."""
        scheme = scheme_of(path)
        if scheme in ("", "file"):
            return file_uri(path)
        rest = path[len(scheme) :]
        if self.scheme and scheme in ("wasb", "wasbs"):
            authority, slash, name = rest.removeprefix("://").partition("/")
            container, at, host = authority.rpartition("@")
            rest = f"://{container}{at}{dfs_host(host)}{slash}{name}"
        return (self.scheme or scheme) + rest


LOCAL: Final = HadoopFiles()


class _Tried:
    """What was tried in one JVM."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.names: dict[frozenset[tuple[str, str]], str] = {}
        self.ways: dict[tuple[str, str, frozenset[tuple[str, str]]], tuple[HadoopFiles | None, float]] = {}


_TRIED: WeakKeyDictionary[Any, _Tried] = WeakKeyDictionary()


def hadoop_files(gateway: Gateway, file_io: FileIO, sizes: Mapping[str, int]) -> HadoopFiles | None:
    """The way by which Spark's readers open files; None where they cannot.

    Args:
        gateway: the JVM.
        file_io: the table's.
        sizes: the files, with their bytes as the manifests tell.
    """
    roots = {_root(path): path for path in sizes}
    schemes = {scheme for scheme, _ in roots}
    if schemes <= {"", "file"}:
        return LOCAL
    if len(schemes) > 1:
        return None
    found = _settings(file_io, roots)
    if found is None:
        return None
    ways = {_way(gateway, *found, root, path, sizes[path]) for root, path in roots.items()}
    return ways.pop() if len(ways) == 1 else None


def load_store_client(gateway: Gateway, catalog: FilesystemCatalog) -> None:
    """Let the JVM load its client of a store, and Spark's reader, before the first scan needs them.

    Of S3 that takes two seconds. The store is asked for the warehouse, in a thread of its own. What goes wrong is left
    to whoever needs the store. Where tasks run in this JVM, their file system is made too, if it has a scheme of ours:
    one of the session might be made before the session has its settings.

    Args:
        gateway: the JVM.
        catalog: whose warehouse is on the store.
    """
    threading.Thread(target=_load, args=(gateway, catalog), name="paimon-store-client", daemon=True).start()


def _load(gateway: Gateway, catalog: FilesystemCatalog) -> None:
    root = _root(catalog.warehouse)
    try:
        found = _settings(catalog.file_io, [root])
    except PaimonError:
        return
    if found is None:
        return
    kind, settings = found
    name = _name(_TRIED.setdefault(gateway.gateway, _Tried()), settings)
    way = _ways(name, root[0])[-1]
    own = _own_scheme(way, kind, settings)
    uri = way.uri(catalog.warehouse)
    answer = size_of_file(gateway, None, own, uri)
    if isinstance(answer, int) or answer == "FileNotFoundException":  # a store has no file for a directory
        is_local = str(gateway.context.master).partition("[")[0] == "local"
        read_first(gateway, own if name and is_local else None, uri)


def _settings(file_io: FileIO, roots: Iterable[tuple[str, str]]) -> tuple[str, dict[str, str]] | None:
    """The store's kind, and its settings for Hadoop on top of the session's; None where Hadoop cannot have them."""
    inner = file_io.inner if isinstance(file_io, ConfinedFileIO) else file_io
    if not isinstance(inner, FsspecFileIO) or not {scheme for scheme, _ in roots} <= _SCHEMES:
        return None
    given = inner.storage_options if inner.session is None else inner.session.given
    settings = hadoop_options(inner.scheme, given, {bucket for _, bucket in roots})
    return None if settings is None else (inner.scheme, settings)


def why_not_native(gateway: Gateway, scan: ScanPlan) -> str:
    """Say why Paimon's reader reads rows that Spark's could; "" where neither store nor sizes of files are the reason.

    Arguments: those of `is_native`, which was asked before.
    """
    if not scan.has_plain_rows or not scan.table.options.value("read.spark-parquet"):
        return ""
    if _is_read_together(scan):
        return "its files are many and small"
    sizes = _sizes(scan.plan.splits)
    schemes = sorted({scheme_of(path) for path in sizes} - {"", "file"})
    if not schemes:
        return ""
    if hadoop_files(gateway, scan.table.file_io, sizes) is not None:
        return ""
    if scan.table.file_io.renews_keys:
        return "the catalog gives out keys of the store that end, which Spark's reader cannot renew"
    return f"the session's Hadoop cannot open {', '.join(schemes)}"


def _root(path: str) -> tuple[str, str]:
    scheme = scheme_of(path)
    return scheme, "" if scheme in ("", "file") else path[len(scheme) + 1 :].lstrip("/").partition("/")[0]


def _way(
    gateway: Gateway, kind: str, settings: Mapping[str, str], root: tuple[str, str], path: str, size: int
) -> HadoopFiles | None:
    tried = _TRIED.setdefault(gateway.gateway, _Tried())
    key = (*root, frozenset(settings.items()))
    with tried.lock:
        way, until = tried.ways.get(key, (None, 0.0))
        if way is None and time.monotonic() >= until:
            way = _try(gateway, tried, kind, settings, path, size)
            tried.ways[key] = (way, time.monotonic() + _TRY_AGAIN_SECONDS)
        return way


def _try(
    gateway: Gateway, tried: _Tried, kind: str, settings: Mapping[str, str], path: str, size: int
) -> HadoopFiles | None:
    name = _name(tried, settings)
    reason = ""
    for way in _ways(name, scheme_of(path)):
        found = size_of_file(gateway, name, _own_scheme(way, kind, settings), way.uri(path))
        if found == size:
            return way
        reason = f"it finds {found} bytes where {size} are" if isinstance(found, int) else found
    _LOG.warning(
        "Spark's own Parquet reader cannot open the files at %s, so Paimon's reads them: %s. It needs Hadoop's file "
        "system of the store (docs/storage.md).",
        redact(path).rpartition("/")[0],
        reason,
    )
    return None


def _name(tried: _Tried, settings: Mapping[str, str]) -> str | None:
    """The name of a store with settings of its own."""
    return tried.names.setdefault(frozenset(settings.items()), uuid.uuid4().hex[:12]) if settings else None


def _ways(name: str | None, scheme: str) -> list[HadoopFiles]:
    """The ways by which Hadoop may open files, the first first."""
    newer = _OTHER_SCHEMES.get(scheme)
    if name:
        return [HadoopFiles(name, f"{newer or scheme}-paimon-{name}")]
    return [HadoopFiles(), *([HadoopFiles(None, newer)] if newer else [])]


def _own_scheme(way: HadoopFiles, kind: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings, with the class of the file system of a scheme of our own."""
    own = {f"fs.{way.scheme}.impl": file_system_class(kind, settings)} if way.store else {}
    return {**settings, **own}


_OPTIONS: Final = {
    "mergeSchema": "false",
    "recursiveFileLookup": "true",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "parquet.page.verify-checksum.enabled": "true",
}
"""What else the session's settings would say."""
_SHIFTS_TIMES: Final = "spark.sql.parquet.int96TimestampConversion"
"""A setting that moves times of files which other engines wrote; there is no such option."""
_FIRST_SAFE_YEAR: Final = 1900
"""Dates and times before it change on their way through ``java.sql``, in which Spark passes them to its reader."""
_READS_COLUMNS: Final = "spark.sql.parquet.enableVectorizedReader"
"""Without it Spark copies what is constant in a file into each row."""
WANTED_SETTINGS: Final = (_SHIFTS_TIMES, _READS_COLUMNS)
_LEAST_NATIVE_ROWS: Final = 1 << 17
"""Of a scan of which tasks merge other rows: of fewer a job of two readers takes as long as of one."""


def parquet_batch(
    gateway: Gateway,
    scan: ScanPlan,
    pushed: Sequence[Predicate],
    *,
    position_filter: PositionFilter | None = None,
    tasks: Sequence[Sequence[DataSplit]] | None = None,
) -> Value:
    """A batch of Spark's Parquet reader, for `answer_proxy`; ``PaimonParquet`` makes it, where this Spark lets it.

    Args:
        gateway: the JVM.
        scan: what is read; partition columns come last in its struct.
        pushed: predicates that Spark evaluates once more: here they only prune row groups.
        position_filter: of rows, by which Spark filters them: columns for that are added.
        tasks: the splits of the scan's plan, packed into tasks; without them they are packed here.

    Raises:
        CorruptTableError: a file has another size than its manifest entry says, which Spark's reader does not look at.
    """
    keys = scan.table.schema.partition_keys
    partition_fields = [field for field in scan.plan.fields if field.name in keys]
    constant = {*keys, *scan.metadata}
    partition = StructType([column for column in scan.struct.fields if column.name in constant])
    data = StructType([column for column in scan.struct.fields if column.name not in constant])
    if position_filter is not None:
        data, partition = data.add(POSITION), partition.add(BITS)
    tasks = _packed(scan, position_filter) if tasks is None else tasks
    sizes = _sizes(split for splits in tasks for split in splits)
    check_sizes(scan.table.file_io, sizes)
    way = hadoop_files(gateway, scan.table.file_io, sizes) or LOCAL
    files = task_files(scan.table, partition_fields, tasks, position_filter, paths=bool(scan.metadata), uri=way.uri)
    return [
        "parquet batch",
        {
            "data": data.json(),
            "partition": partition.json() if len(partition) else None,
            "filters": _usable_filters(scan, pushed),
            "options": _OPTIONS,
            "store": way.store,
            "local": way is LOCAL and all(scheme_of(path) in ("", "file") for path in islice(sizes, 1)),
            "kinds": files.kinds,
            "rows": files.rows,
            "tasks": files.tasks,
        },
    ]


def note_refusal(error: Exception | str) -> None:
    """Log why Paimon's reader is used and not Spark's."""
    _LOG.warning("Spark's own Parquet reader cannot be used here, Paimon's is: %s", misfit_reason(error))


def is_native(gateway: Gateway, scan: ScanPlan, settings: Mapping[str, str], *, filtered: bool = False) -> bool:
    """Whether a scan is left to Spark's Parquet reader: rows, as they are, of files that the JVM can open.

    Args:
        gateway: the JVM.
        scan: what is read.
        settings: of the session, `WANTED_SETTINGS` as far as they are set.
        filtered: Spark leaves out deleted and superseded rows by their positions.
    """
    if not _is_asked_for(scan, settings, filtered=filtered):
        return False
    plain = holds_plain_rows(scan.plan, filtered=True) if filtered else scan.has_plain_rows
    return plain and _opens(gateway, scan)


def _is_read_together(scan: ScanPlan) -> bool:
    """Whether Paimon's reader takes less time, whether it merges files or not."""
    return not scan.metadata and scan.has_many_small_files


def _is_asked_for(scan: ScanPlan, settings: Mapping[str, str], *, filtered: bool) -> bool:
    """Whether options, settings and columns let Spark's reader give the rows; arguments: those of `is_native`."""
    if not scan.table.options.value("read.spark-parquet") or _is_read_together(scan):
        return False
    if scan.metadata and (filtered or scan.metadata != (FILE_PATH,)):
        return False
    if settings.get(_SHIFTS_TIMES, "false").lower() == "true":
        return False
    if filtered and settings.get(_READS_COLUMNS, "true").lower() == "false":
        return False
    return scan.partition_columns_are_last


def _opens(gateway: Gateway, scan: ScanPlan) -> bool:
    """Whether the JVM can open the files of a scan."""
    sizes = _sizes(scan.plan.splits)
    if not sizes and not _is_local(scan.table.path):
        return False
    way = hadoop_files(gateway, scan.table.file_io, sizes)
    return way is not None and _can_name(gateway, sizes, local=way == LOCAL)


def native_position_filter(gateway: Gateway, scan: ScanPlan, settings: Mapping[str, str]) -> PositionFilter | None:
    """Find the rows that Spark leaves out of what its Parquet reader reads; None where there are none, or ours reads.

    Arguments: those of `is_native`.
    """
    if scan.has_plain_rows or _is_read_together(scan):
        return None
    far, merges = not _is_local(scan.table.path), bool(merged_splits(scan.plan))
    if merges and (is_small(gateway, scan) or not is_worth_filtering(scan, far=far)):
        return None  # the keys of all files would be read
    newest = merges and may_be_newest_rows(scan.plan.table)
    tried = scan.as_if({"merge-engine": "deduplicate"}) if newest else scan
    if not is_native(gateway, tried, settings, filtered=True) or (newest and not newest_row_wins(scan.plan)):
        return None
    return position_filter_of(tried.plan, active_session(gateway), far=far)


def native_part(gateway: Gateway, scan: ScanPlan, settings: Mapping[str, str]) -> tuple[ScanPlan, ScanPlan] | None:
    """Cut a scan that our reader would read: files that Spark's Parquet reader can read, and the others.

    Files that are merged are cut too, between row groups.

    Arguments: those of `is_native`.

    Returns:
        Two scans, which have each row once; None where Spark's reader would read few rows.
    """
    if scan.limit is not None or scan.has_plain_rows or not may_hold_plain_rows(scan.plan):
        return None
    if not _is_asked_for(scan, settings, filtered=False):
        return None
    if _is_worth_cutting(scan) and _opens(gateway, scan):
        scan = scan.with_splits(cut_by_keys(scan.table, scan.plan.splits))
    plain = plain_splits(scan.plan, filtered=True, overlap=False)
    rows = sum(split.row_count for split in plain)
    if len(plain) == len(scan.plan.splits) or rows < max(_LEAST_NATIVE_ROWS, scan.row_count // 4):
        return None
    native, rest = scan.of_splits(plain)
    filtered = not native.has_plain_rows
    return (native, rest) if is_native(gateway, native, settings, filtered=filtered) else None


def _is_worth_cutting(scan: ScanPlan) -> bool:
    merged = merged_splits(scan.plan)
    least = least_far_rows(merged) if not _is_local(scan.table.path) else 0
    return sum(split.row_count for split in merged) >= max(2 * _LEAST_NATIVE_ROWS, least)


def _packed(scan: ScanPlan, position_filter: PositionFilter | None) -> list[tuple[DataSplit, ...]]:
    """Pack splits into tasks; with a position filter, files that overlap need not come to one."""
    splits = scan.plan.splits
    if position_filter is not None:
        splits = tuple(replace(split, files=(file,)) for split in splits for file in split.files)
    return pack_splits(splits, scan.table.options)


def _is_local(path: str) -> bool:
    return path.startswith("/") or path[:5].lower() == "file:"


def _sizes(splits: Iterable[DataSplit]) -> dict[str, int]:
    return {file.path: file.size for split in splits for file in split.files}


def _can_name(gateway: Gateway, paths: Iterable[str], *, local: bool) -> bool:
    """Return whether the JVM can name these files: of local ones its locale may be ASCII only."""
    if all(map(str.isascii, paths)):
        return True
    if not all(map(_is_unicode, paths)):
        return False
    return not local or str(gateway.jvm.java.lang.System.getProperty("sun.jnu.encoding")).upper() in ("UTF-8", "UTF8")


def _is_unicode(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _usable_filters(scan: ScanPlan, pushed: Sequence[Predicate]) -> list[int]:
    """The positions of the filters by which Spark may leave out row groups and pages."""
    keys = scan.table.schema.partition_keys
    usable = {
        field.name
        for field in scan.plan.fields
        if field.name not in keys and not isinstance(field.type, FloatType | DoubleType)
    }
    return [position for position, predicate in enumerate(pushed) if _may_leave_out(predicate, usable)]


def _may_leave_out(predicate: Predicate, usable: set[str]) -> bool:
    """Return whether Spark's reader may use a filter to skip row groups and pages.

    It must speak of columns that are read only, since a column that is not looks to page filters as if it were null
    everywhere; of no floating point numbers, since their maxima leave out NaN; and of no dates of long ago.
    """
    literals = (value for leaf in _leaves(predicate) for value in leaf.literals)
    old = (isinstance(value, date | datetime) and value.year < _FIRST_SAFE_YEAR for value in literals)
    return bool(fields(predicate)) and fields(predicate) <= usable and not any(old)


def _leaves(predicate: Predicate) -> Iterator[Leaf]:
    match predicate:
        case Leaf():
            yield predicate
        case Not():
            yield from _leaves(predicate.child)
        case And() | Or():
            for child in predicate.children:
                yield from _leaves(child)


@dataclass(frozen=True)
class TaskFiles:
    """The files of every task as plain values."""

    kinds: list[str]
    """Of each partition column that is read."""
    rows: list[tuple[Any, ...]]
    """Values of these columns, as Spark keeps them; one for each partition."""
    tasks: list[list[tuple[int, str, int, int, int]]]
    """Of each file the position in `rows`, the URI, the first byte, the number of bytes, the size of the file."""


def task_files(
    table: FileStoreTable,
    columns: Sequence[DataField],
    tasks: Sequence[Sequence[DataSplit]],
    position_filter: PositionFilter | None = None,
    *,
    paths: bool = False,
    uri: Callable[[str], str] | None = None,
) -> TaskFiles:
    """The files of the splits of each task, with the values of the partition columns that are read.

    Args:
        table: whose files they are.
        columns: partition columns that are read.
        tasks: the splits.
        position_filter: bits of some files, which are read as one more such column.
        paths: the path of a file is read as one more such column.
        uri: by the path of a file what Hadoop opens; the file is local when not given.
    """
    if position_filter is not None:
        found = task_files(table, columns, tasks, uri=uri)
        texts = {path: base64.b64encode(bits).decode() for path, bits in position_filter.items()}
        return _with_constant(found, tasks, texts.get, "bits")
    if paths:
        return _with_constant(task_files(table, columns, tasks, uri=uri), tasks, str, "")
    partitions = dict.fromkeys(split.partition for splits in tasks for split in splits)
    position = {partition: at for at, partition in enumerate(partitions)}
    files = [
        [(position[split.partition], *_slice(file, uri or file_uri)) for split in splits for file in split.files]
        for splits in tasks
    ]
    return TaskFiles(*partition_rows(table, columns, partitions), files)


def partition_rows(
    table: FileStoreTable, columns: Sequence[DataField], partitions: Iterable[bytes]
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The values of partition columns in each of these partitions, and the kinds of the columns; see `TaskFiles`."""
    layout, keys = DataLayout.of(table.schema), table.schema.partition_keys
    locations = [keys.index(field.name) for field in columns]
    rows = []
    for partition in partitions:
        values = layout.partition_values(partition) if columns else ()
        rows.append(tuple(_as_spark_keeps(values[at]) for at in locations))
    return [_KINDS.get(type(field.type), "") for field in columns], rows


def _with_constant(
    found: TaskFiles, tasks: Sequence[Sequence[DataSplit]], constant: Callable[[str], Any], kind: str
) -> TaskFiles:
    """The same files, each with what its path stands for as a further value of its partition."""
    position: dict[tuple[int, Any], int] = {}
    rows: list[tuple[Any, ...]] = []
    assigned: list[list[tuple[int, str, int, int, int]]] = []
    for splits, files in zip(tasks, found.tasks, strict=True):
        assigned.append([])
        for file, (partition, uri, start, length, size) in zip(
            (f for split in splits for f in split.files), files, strict=True
        ):
            key = partition, constant(file.path)
            if key not in position:
                position[key] = len(rows)
                rows.append((*found.rows[partition], key[1]))
            assigned[-1].append((position[key], uri, start, length, size))
    return TaskFiles([*found.kinds, kind], rows, assigned)


def _as_spark_keeps(value: Any) -> Any:
    return value.toordinal() - _EPOCH_DAY if isinstance(value, date) else value


def _slice(file: SplitFile, uri: Callable[[str], str]) -> tuple[str, int, int, int]:
    """Return a file or a range of its bytes. A row group belongs to the range that holds its middle."""
    groups = file.row_groups or RowGroups(0, 1, 1)
    if groups.start_byte is None or groups.end_byte is None:
        start, end = file.size * groups.first // groups.of, file.size * groups.end // groups.of
    else:
        start, end = groups.start_byte, groups.end_byte
    return uri(file.path), start, end - start, file.size


def file_uri(path: str) -> str:
    """Return a local path as a URI for Hadoop's ``Path``, without percent encoding."""
    return f"file:///{local_path(path).lstrip('/')}"
