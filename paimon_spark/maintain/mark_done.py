"""Marking partitions as done, as option ``partition.mark-done-action`` asks (Java: ``PartitionMarkDoneAction``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.spec.file_names import renewed_success_file
from paimon_spark.spec.partition_path import escape_path_name

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

SUCCESS_FILE = "success-file"
_OPTION = "partition.mark-done-action"
_REFUSED = {
    "done-partition": "Cannot mark done partition for table without metastore, and a filesystem catalog has none.",
    "mark-event": "Cannot mark done partition for table without metastore, and a filesystem catalog has none.",
    "http-report": "No address is called from here: let the job that calls this one tell it.",
    "custom": "Classes of Java cannot be loaded here: let the job that calls this one do it.",
}


def mark_partitions_done(table: FileStoreTable, partitions: Sequence[Mapping[str, str]]) -> list[str]:
    """Mark partitions; return the paths of their marks.

    A mark is the file ``_SUCCESS`` in the directory of a partition, with the times of its first and its last writing.
    A partition need not have rows. Of some partition columns only, the directory above the others is marked, as in
    Java.

    Args:
        table: partitioned.
        partitions: values of partition columns as they stand in names of directories.

    Raises:
        OptionError: the table has no partitions, or a column is none of them.
        UnsupportedError: the option asks for something else than ``success-file``.
        CorruptTableError: an existing mark cannot be read.
    """
    actions = [part.strip().lower() for part in str(table.options.value(_OPTION)).split(",") if part.strip()]
    for action in actions:
        if action != SUCCESS_FILE:
            reason = _REFUSED.get(action, f"Known actions are {SUCCESS_FILE}, {', '.join(_REFUSED)}.")
            raise UnsupportedError(f"'{_OPTION}' = '{action}' is not supported: {reason}")
    paths = [f"{table.paths.root}/{_directory(table, spec)}/_SUCCESS" for spec in partitions]
    for path in paths if actions else []:
        old = table.file_io.read_bytes(path) if table.file_io.exists(path) else None
        table.file_io.write_bytes(path, renewed_success_file(old, path=path), overwrite=True)
    return paths


def _directory(table: FileStoreTable, spec: Mapping[str, str]) -> str:
    keys = table.schema.partition_keys
    unknown = sorted(set(spec) - set(keys))
    if not keys or unknown or not spec:
        raise OptionError(
            f"Partition keys [{', '.join(unknown)}] are invalid. Available partition keys are [{', '.join(keys)}]"
        )
    return "/".join(f"{escape_path_name(key)}={escape_path_name(spec[key])}" for key in keys if key in spec)
