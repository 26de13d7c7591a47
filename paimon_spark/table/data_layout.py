"""Where data files lie below the table directory: partition and bucket directories, external paths.

Equals Java's ``FileStorePathFactory.bucketPath`` and ``DataFilePathFactory.toPath`` (docs/internals/format.md §5, §6).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import add
from typing import TYPE_CHECKING

from paimon_spark.errors import CorruptTableError, UnsupportedError
from paimon_spark.spec.binary_row import deserialize_row
from paimon_spark.spec.binary_row_decoder import decode_rows
from paimon_spark.spec.data_types import BigIntType, CharType, IntType, SmallIntType, TinyIntType, VarCharType
from paimon_spark.spec.file_names import (
    bucket_name,
    check_file_name,
    check_file_names,
    data_directory,
    external_roots,
    plain_path,
)
from paimon_spark.spec.java_text import escape_path_name, partition_path
from paimon_spark.storage.store_options import FSSPEC_SCHEME, redact, scheme_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import pyarrow as pa

    from paimon_spark.spec.data_types import DataType
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.schema import TableSchema

_WHOLE_NUMBERS = (TinyIntType, SmallIntType, IntType, BigIntType)
_TEXTS = (CharType, VarCharType)


@dataclass(frozen=True, slots=True)
class DataLayout:
    """Where data files are, by the schema's options."""

    partition_keys: tuple[str, ...] = ()
    partition_types: tuple[DataType, ...] = ()
    default_partition_name: str = "__DEFAULT_PARTITION__"
    legacy_partition_name: bool = True
    data_directory: str | None = None
    """Option ``data-file.path-directory``: a directory between the table and its partitions."""
    external_roots: tuple[str, ...] = ()
    """Option ``data-file.external-paths``: the only directories outside the table where its files may lie."""
    index_with_data: bool = False
    """Option ``index-file-in-data-file-dir``: index files lie in the directories of their buckets."""

    @classmethod
    def of(cls, schema: TableSchema) -> DataLayout:
        """Read the layout off a schema and its options.

        Raises:
            OptionError: an option leads out of the table.
        """
        options = schema.options
        types = tuple(schema.field(name).type for name in schema.partition_keys)
        return cls(
            partition_keys=tuple(schema.partition_keys),
            partition_types=types,
            default_partition_name=options.get("partition.default-name", "__DEFAULT_PARTITION__"),
            legacy_partition_name=options.get("partition.legacy-name", "true").strip().lower() != "false",
            data_directory=data_directory(options),
            external_roots=external_roots(options),
            index_with_data=schema.core_options.value("index-file-in-data-file-dir"),
        )

    def partition_values(self, partition: bytes) -> list[Any]:
        """Return the partition values of partition bytes, in the order of the partition keys."""
        return list(deserialize_row(partition, self.partition_types)) if self.partition_types else []

    def partition_path(self, partition: bytes) -> str:
        """Return ``k=v/k2=v2`` (no slash at either end) of partition bytes; empty when not partitioned."""
        return self.path_of_values(self.partition_values(partition))

    def partition_paths(self, partitions: Sequence[bytes]) -> list[str]:
        """Return `partition_path` of each of many partitions; of whole numbers and texts column by column."""
        types = self.partition_types
        if not types or not all(isinstance(data_type, (*_WHOLE_NUMBERS, *_TEXTS)) for data_type in types):
            return list(map(self.partition_path, partitions))
        columns = decode_rows(partitions, types, serialized=True)
        directories = map(self._directories, self.partition_keys, types, columns)
        return list(map("/".join, zip(*directories, strict=True)))

    def _directories(self, name: str, data_type: DataType, column: pa.Array) -> list[str]:
        values = column.to_pylist()
        if isinstance(data_type, _WHOLE_NUMBERS) and not column.null_count:
            head = f"{escape_path_name(name)}="
            return [f"{head}{value}" for value in values]
        one = replace(self, partition_keys=(name,), partition_types=(data_type,))
        known = {value: one.path_of_values((value,)) for value in dict.fromkeys(values)}
        return list(map(known.__getitem__, values))

    def path_of_values(self, values: Sequence[Any]) -> str:
        """Return ``k=v/k2=v2`` of partition values; empty when not partitioned."""
        if not self.partition_keys:
            return ""
        return partition_path(
            self.partition_keys,
            self.partition_types,
            values,
            legacy=self.legacy_partition_name,
            default_name=self.default_partition_name,
        ).strip("/")

    def bucket_dir(self, root: str, partition: str, bucket: int) -> str:
        """Return the directory of a bucket.

        Args:
            root: the table directory.
            partition: ``k=v/k2=v2``, empty when not partitioned.
            bucket: the bucket id; -2 is the postpone bucket.
        """
        return "/".join(part for part in (root, self.data_directory, partition, bucket_name(bucket)) if part)

    def data_file_path(self, directory: str, name: str, external: str | None = None) -> str:
        """Return the path of a data file.

        Args:
            directory: the bucket's directory.
            name: the file's name, which is checked.
            external: its external path, None when the file lies in the bucket's directory.

        Raises:
            CorruptTableError: the name or the external path leads out of where the table's files may lie.
            UnsupportedError: the external path is in another store.
        """
        path = f"{directory}/{check_file_name(name, path=directory)}"
        return path if external is None else self._external_path(external, name, path)

    def data_file_paths(self, root: str, files: ManifestColumns) -> list[str]:
        """Return the path of each of many data files; raises as `data_file_directories`."""
        return list(map(add, self.data_file_directories(root, files), files.file_names))

    def data_file_directories(self, root: str, files: ManifestColumns) -> list[str]:
        """Return the directory of each of many data files, with a slash at its end; files of a bucket share one object.

        Raises:
            CorruptTableError: a name or an external path leads out of where the table's files may lie.
            UnsupportedError: an external path is in another store.
        """
        partitions, buckets = files.partitions, files.buckets.tolist()
        known = list(dict.fromkeys(partitions))
        paths = dict(zip(known, self.partition_paths(known), strict=True))
        directories = {
            (partition, bucket): self.bucket_dir(root, paths[partition], bucket) + "/"
            for partition, bucket in dict.fromkeys(zip(partitions, buckets, strict=True))
        }
        result = [directories[each] for each in zip(partitions, buckets, strict=True)]
        names, external = files.file_names, files.file_values("_EXTERNAL_PATH")
        check_file_names(names, result)
        if external.count(None) < len(external):
            for at, (name, path) in enumerate(zip(names, external, strict=True)):
                if path is not None:
                    result[at] = self._external_path(path, name, result[at] + name).removesuffix(name)
        return result

    def _external_path(self, external: str, name: str, path: str) -> str:
        parts = external.split("/")
        allowed = any(plain_path(external).startswith(plain_path(root) + "/") for root in self.external_roots)
        if not allowed or ".." in parts or "." in parts or "\0" in external or parts[-1] != name:
            raise CorruptTableError(
                f"Data file {path} has the external path {external!r}, which is not below the table's option "
                f"'data-file.external-paths' ({', '.join(self.external_roots) or 'not set'}).",
                path=path,
            )
        if store_of(external) != store_of(path):
            raise UnsupportedError(
                f"Data file {path} lies in another store than its table, as {redact(external)}, which is not "
                "supported. Read this table with another Paimon engine."
            )
        return external


def store_of(path: str) -> str:
    """The kind of store that a path is in; empty for local files."""
    scheme = scheme_of(path)
    return "" if scheme == "file" else FSSPEC_SCHEME.get(scheme, scheme)
