"""BLOB columns of tables with primary keys: data files hold descriptors, the values lie in packs of the table.

Java: ``PrimaryKeyBlobExternalizer``. A pack, ``*.managed.blob``, lies in a bucket's directory; compactions keep the
descriptors, so that a pack serves many data files. Only files of the table's own directory are opened. Runs in tasks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.file_names import MANAGED_BLOB_SUFFIX
from paimon_spark.storage.blob_descriptor import PLACE, parse_head
from paimon_spark.storage.blob_format import portions
from paimon_spark.storage.blob_leaves import leaf_bounds, leaves, with_leaves
from paimon_spark.storage.column_reading import corrupt_as
from paimon_spark.storage.data_file import DEFAULT_BATCH_BYTES
from paimon_spark.storage.store_options import redact
from paimon_spark.table.paths import plain_path

if TYPE_CHECKING:
    from paimon_spark.read.plan import ReadPlan, ReadSplit
    from paimon_spark.read.split import DataSplit
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.table.table import FileStoreTable

_MOST_BYTES = 1 << 40
"""Of one value; more is found to be too much when the pack is opened."""
Longs = npt.NDArray[np.int64]


def with_values(plan: ReadPlan) -> ReadPlan:
    """Return a plan whose read gives values in place of descriptors, where the table asks for them."""
    names = plan.schema.managed_blob_fields
    if plan.schema.core_options.value("blob-as-descriptor") or not names.intersection(f.name for f in plan.fields):
        return plan
    return replace(plan, read=ReadValues(plan.read, names))


@dataclass(frozen=True, slots=True)
class ReadValues:
    """Reads a split, and opens the packs that its rows name."""

    read: ReadSplit
    names: frozenset[str]

    def __call__(
        self,
        table: FileStoreTable,
        split: DataSplit,
        plan_fields: Sequence[DataField],
        predicate: Predicate | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `read` with values of the columns; batches are cut so that they hold no more than usual.

        Raises:
            CorruptTableError: a descriptor is damaged, names no pack of the table, or more than the pack has.
        """
        columns = [at for at, field in enumerate(plan_fields) if field.name in self.names]
        packs = Packs(table)
        schema = to_arrow_schema(plan_fields)
        for batch in self.read(table, split, plan_fields, predicate):
            sizes = sum((_sizes(batch.column(at)) for at in columns), np.zeros(batch.num_rows, np.int64))
            for part in portions(sizes, batch.num_rows, DEFAULT_BATCH_BYTES):
                rows = batch.slice(part.start, part.stop - part.start)
                arrays = list(rows.columns)
                for at in columns:
                    arrays[at] = with_leaves(arrays[at], packs.values(leaves(arrays[at])))
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _sizes(column: pa.Array) -> Longs:
    """The bytes of the values of each row."""
    bounds = leaf_bounds(column)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.minimum(_places(leaves(column))[1], _MOST_BYTES))])
    return np.diff(ends[bounds])


def _places(descriptors: pa.Array) -> tuple[Longs, Longs]:
    """Offset and length that each descriptor names; zeros for null.

    Raises:
        ValueError: one is too short, or names what cannot be.
    """
    lengths = pc.fill_null(pc.binary_length(descriptors), PLACE)
    if len(descriptors) and pc.min(lengths).as_py() < PLACE:
        raise CorruptTableError("A descriptor of a BLOB value is too short.")
    tails = pc.fill_null(pc.binary_slice(descriptors, -PLACE, None), bytes(PLACE)).cast(pa.binary(PLACE))
    numbers = np.frombuffer(b"".join(tails.to_pylist()), "<i8").reshape(-1, 2)
    if (numbers < 0).any():
        raise CorruptTableError("A descriptor of a BLOB value names a place below zero.")
    return numbers[:, 0], numbers[:, 1]


class Packs:
    """Reads values from the packs of a table."""

    def __init__(self, table: FileStoreTable) -> None:
        self._table = table
        self._root = plain_path(table.paths.root) + "/"

    def values(self, column: pa.Array) -> pa.Array:
        """The values that descriptors name."""
        offsets, lengths = _places(column)
        heads = pc.binary_slice(column, 0, -PLACE).dictionary_encode()
        found: list[bytes | None] = [None] * len(column)
        codes = heads.indices.to_numpy(zero_copy_only=False)
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        for code, head in enumerate(heads.dictionary.to_pylist()):
            at = np.flatnonzero(valid & (codes == code))
            for i, value in zip(at.tolist(), self._read(head, offsets[at], lengths[at]), strict=True):
                found[i] = value
        return pa.array(found, column.type)

    def _read(self, head: bytes, offsets: Longs, lengths: Longs) -> Iterator[bytes]:
        path = self._path(head)
        with corrupt_as(path, "blob"), self._table.file_io.open_input(path, None) as file:
            size = file.size()
            if (offsets > size).any() or (lengths > size - offsets).any():
                raise CorruptTableError(f"Blob file {path} has {size} bytes, and a row names more of it.", path=path)
            for offset, length in zip(offsets.tolist(), lengths.tolist(), strict=True):
                yield bytes(file.read_at(length, offset))

    def _path(self, head: bytes) -> str:
        """The pack that a descriptor names."""
        try:
            uri = parse_head(head)
        except (ValueError, struct.error) as error:
            root = self._table.paths.root
            raise CorruptTableError(f"A row of table {root} has a damaged BLOB descriptor: {error}.") from None
        return self.path(uri)

    def path(self, uri: str) -> str:
        """The path of the pack that a URI names.

        Raises:
            CorruptTableError: it is none of the table's own.
        """
        root, plain = self._table.paths.root, plain_path(uri)
        inside = plain.startswith(self._root) and plain.endswith(MANAGED_BLOB_SUFFIX)
        if not inside or {"..", ".", ""} & set(plain[len(self._root) :].split("/")) or "\0" in plain:
            raise CorruptTableError(
                f"A row of table {root} names the BLOB file {redact(uri)!r}, which is none of the table's own. Read "
                "the descriptors themselves with option 'blob-as-descriptor' = 'true'."
            )
        return f"{root}/{plain[len(self._root) :]}"
