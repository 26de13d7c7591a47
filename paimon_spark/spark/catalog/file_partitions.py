"""The files of a scan as plain values, of which ``PaimonParquet`` in the JVM makes Spark's ``FilePartition``s."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.spec.data_types import BigIntType, DataType, SmallIntType, TinyIntType
from paimon_spark.storage.local_files import local_path
from paimon_spark.table.data_layout import DataLayout

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit, SplitFile
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_KINDS: Final[dict[type[DataType], str]] = {TinyIntType: "byte", SmallIntType: "short", BigIntType: "long"}
"""Partition columns whose values JSON does not bring in the class that Spark's rows want."""


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
    first_bits: Mapping[str, int] | None = None,
    *,
    paths: bool = False,
    uri: Callable[[str], str] | None = None,
) -> TaskFiles:
    """The files of the splits of each task, with the values of the partition columns that are read.

    Args:
        table: whose files they are.
        columns: partition columns that are read.
        tasks: the splits.
        first_bits: a number by the path of a file, which is read as one more such column; -1 for files without.
        paths: the path of a file is read as one more such column.
        uri: by the path of a file what Hadoop opens; the file is local when not given.
    """
    if first_bits is not None:
        found = task_files(table, columns, tasks, uri=uri)
        return _with_constant(found, tasks, lambda path: first_bits.get(path, -1), "long")
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
    part, parts = file.row_groups or (0, 1)
    start, end = file.size * part // parts, file.size * (part + 1) // parts
    return uri(file.path), start, end - start, file.size


def file_uri(path: str) -> str:
    """Return a local path as a URI for Hadoop's ``Path``, without percent encoding."""
    return f"file:///{local_path(path).lstrip('/')}"
