"""The files of a scan as Spark's ``FilePartition``s, made in one call however many files there are.

py4j makes one object at a time, in two calls of the JVM for each file. So the files go there as one pickle, and a few
lines of Java take it apart: Spark brings the compiler along, it is what turns queries into code.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from paimon_spark.spec.data_types import BigIntType, DataType, SmallIntType, TinyIntType
from paimon_spark.storage.local_files import local_path
from paimon_spark.table.data_layout import DataLayout

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit, SplitFile
    from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.table.table import FileStoreTable

_JAVA_PICKLE_PROTOCOL: Final = 3
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_KINDS: Final[dict[type[DataType], str]] = {TinyIntType: "byte", SmallIntType: "short", BigIntType: "long"}
"""Partition columns whose values the pickle does not bring in the class that Spark's rows want."""

_SOURCE: Final = """
import java.util.List;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.unsafe.types.UTF8String;

Object[] given = (Object[]) pickled;
List kinds = (List) given[0];
List rows = (List) given[1];
List tasks = (List) given[2];
InternalRow[] partitions = new InternalRow[rows.size()];
for (int at = 0; at < partitions.length; at++) {
    Object[] values = (Object[]) rows.get(at);
    for (int i = 0; i < values.length; i++) {
        Object kind = kinds.get(i);
        if (values[i] instanceof String) values[i] = UTF8String.fromString((String) values[i]);
        else if (values[i] == null) continue;
        else if ("byte".equals(kind)) values[i] = Byte.valueOf(((Number) values[i]).byteValue());
        else if ("short".equals(kind)) values[i] = Short.valueOf(((Number) values[i]).shortValue());
        else if ("long".equals(kind)) values[i] = Long.valueOf(((Number) values[i]).longValue());
    }
    partitions[at] = new GenericInternalRow(values);
}
String[] nowhere = new String[0];
InputPartition[] result = new InputPartition[tasks.size()];
for (int at = 0; at < result.length; at++) {
    List wanted = (List) tasks.get(at);
    PartitionedFile[] files = new PartitionedFile[wanted.size()];
    for (int i = 0; i < files.length; i++) {
        Object[] file = (Object[]) wanted.get(i);
        files[i] = new PartitionedFile(
            partitions[((Number) file[0]).intValue()], SparkPath.fromPathString((String) file[1]),
            ((Number) file[2]).longValue(), ((Number) file[3]).longValue(), nowhere, 0L,
            ((Number) file[4]).longValue(), (scala.collection.immutable.Map) constants);
    }
    result[at] = new FilePartition(at, files);
}
return result;
"""

_SCRIPTS: WeakKeyDictionary[Gateway, JavaObject] = WeakKeyDictionary()


@dataclass(frozen=True)
class TaskFiles:
    """The files of every task as plain values."""

    kinds: list[str]
    """Of each partition column that is read."""
    rows: list[tuple[Any, ...]]
    """Values of these columns, as Spark keeps them; one for each partition."""
    tasks: list[list[tuple[int, str, int, int, int]]]
    """Of each file the position in `rows`, the URI, the first byte, the number of bytes, the size of the file."""


def task_files(table: FileStoreTable, columns: Sequence[DataField], tasks: Sequence[Sequence[DataSplit]]) -> TaskFiles:
    """The files of the splits of each task, with the values of the partition columns that are read."""
    layout, keys = DataLayout.of(table.schema), table.schema.partition_keys
    places = [keys.index(field.name) for field in columns]
    position: dict[bytes, int] = {}
    rows: list[tuple[Any, ...]] = []
    for split in (split for splits in tasks for split in splits):
        if split.partition not in position:
            position[split.partition] = len(rows)
            values = layout.partition_values(split.partition) if columns else ()
            rows.append(tuple(_as_spark_keeps(values[at]) for at in places))
    files = [
        [(position[split.partition], *_slice(file)) for split in splits for file in split.files] for splits in tasks
    ]
    return TaskFiles([_KINDS.get(type(field.type), "") for field in columns], rows, files)


def file_partitions(gateway: Gateway, files: TaskFiles) -> JavaObject:
    """An ``InputPartition[]``, one for each task.

    Raises:
        Py4JError: this Spark has other classes.
    """
    pickled = pickle.dumps((files.kinds, files.rows, files.tasks), _JAVA_PICKLE_PROTOCOL)
    given = gateway.jvm.net.razorvine.pickle.Unpickler().loads(pickled)
    constants = gateway.jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(gateway.string_map({}))
    return _compiled(gateway).evaluate(gateway.array("java.lang.Object", [given, constants]))


def _compiled(gateway: Gateway) -> JavaObject:
    """The lines of Java, compiled once in a JVM."""
    script = _SCRIPTS.get(gateway)
    if script is None:
        any_class = gateway.java_class("java.lang.Object")
        script = gateway.jvm.org.codehaus.janino.ScriptEvaluator()
        script.setParentClassLoader(gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader())
        script.setReturnType(any_class)
        script.setParameters(
            gateway.strings(["pickled", "constants"]), gateway.array("java.lang.Class", [any_class] * 2)
        )
        script.cook(_SOURCE)
        _SCRIPTS[gateway] = script
    return script


def _as_spark_keeps(value: Any) -> Any:
    return value.toordinal() - _EPOCH_DAY if isinstance(value, date) else value


def _slice(file: SplitFile) -> tuple[str, int, int, int]:
    """A file, or a share of its bytes: a row group belongs to the share that holds its middle."""
    part, parts = file.row_groups or (0, 1)
    start, end = file.size * part // parts, file.size * (part + 1) // parts
    return file_uri(file.path), start, end - start, file.size


def file_uri(path: str) -> str:
    """A local path as Hadoop's ``Path`` takes it, its characters as they are."""
    return f"file:///{local_path(path).lstrip('/')}"
