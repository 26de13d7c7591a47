"""BLOB columns whose values do not lie in the rows' own files: what rows hold becomes values. Runs in tasks.

Rows hold descriptors of managed blob files (tables with primary keys), descriptors of any files
(``blob-descriptor-field``), or names of values of other tables (``blob-view-field``).

Managed blob files hold BLOB values of tables with primary keys (Java: ``PrimaryKeyBlobExternalizer``). A managed blob
file, ``*.managed.blob``, lies in a bucket's directory; compactions keep the descriptors, so that a managed blob file
serves many data files. Only files of the table's own directory are opened. Runs in tasks.

BLOB columns that hold names of values of other tables (``blob-view-field``): where these values lie. Runs in tasks.

Equals Java's ``BlobViewStruct`` and ``BlobViewLookup``. The other table lies in the same warehouse and tracks its rows:
a name has the table, the id of its column and the id of the row. Its latest rows are read.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import CorruptTableError, DataError, TableNotFoundError, UnsupportedError
from paimon_spark.read.audit_log import ROW_TRACKING
from paimon_spark.read.incremental_read import filter_and_project
from paimon_spark.read.sections import groups_of_rows
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spec.file_names import MANAGED_BLOB_SUFFIX
from paimon_spark.spec.predicate import Leaf, all_of, fields, split_and
from paimon_spark.spec.special_fields import ROW_ID
from paimon_spark.storage.arrow_layout import corrupt_as
from paimon_spark.storage.blob_descriptor import (
    LOCATION,
    VIEW_TAIL,
    DescribedFiles,
    parse_head,
    parse_view_head,
    too_short,
    warehouse_of,
)
from paimon_spark.storage.blob_format import leaf_bounds, leaves, portions, with_leaves
from paimon_spark.storage.data_file import DEFAULT_BATCH_BYTES
from paimon_spark.storage.store_options import redact
from paimon_spark.table.paths import is_plain_name, parse_table_path, plain_path
from paimon_spark.table.table import load_table

if TYPE_CHECKING:
    from paimon_spark.read.split import DataSplit
    from paimon_spark.read.table_scan import ReadPlan, ReadSplit
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.predicate import Predicate
    from paimon_spark.table.table import FileStoreTable

_TAIL: Final = np.dtype([("field", "<i4"), ("row", "<i8")])
_DEEPEST: Final = 16
_DEPTH = threading.local()


class ManagedBlobs:
    """Opens the managed blob files of a table."""

    def __init__(self, table: FileStoreTable) -> None:
        self._table = table
        self._root = plain_path(table.paths.root) + "/"

    def open(self, uri: str) -> pa.NativeFile:
        """Open a managed blob file.

        Raises:
            CorruptTableError: it is none of the table's own, or not there.
        """
        path = self.path(uri)
        with corrupt_as(path, "blob"):
            return self._table.file_io.open_input(path, None)

    def path(self, uri: str) -> str:
        """The path of the managed blob file that a URI names.

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

    def too_short(self, uri: str, size: int) -> CorruptTableError:
        """The error of a row that names more than a managed blob file has."""
        path = self.path(uri)
        return CorruptTableError(f"Blob file {path} has {size} bytes, and a row names more of it.", path=path)


_MOST_BYTES = 1 << 40
"""Of one value; more is found to be too much when the file is opened."""
_MOST_TOGETHER = (1 << 31) - 1
"""Bytes of an Arrow array of values: of one row, since batches are cut where rows together have more."""
_REST = -1
Longs = npt.NDArray[np.int64]


def with_values(plan: ReadPlan) -> ReadPlan:
    """Return a plan whose read gives values in place of what rows hold, as far as the options ask for them."""
    options, names = plan.schema.core_options, {field.name for field in plan.fields}
    names |= set() if plan.residual is None else fields(plan.residual)
    views = names.intersection(options.names("blob-view-field") if options.value("blob-view.resolve.enabled") else ())
    described = names.intersection((*options.names("blob-descriptor-field"), *views))
    columns = _Columns(
        views=frozenset(views),
        described=frozenset(() if options.value("blob-as-descriptor") else described),
        packed=frozenset(() if options.value("blob-as-descriptor") else plan.schema.managed_blob_fields & names),
    )
    return replace(plan, read=ReadValues(plan.read, columns)) if columns.all else plan


@dataclass(frozen=True, slots=True)
class _Columns:
    """Names of columns."""

    views: frozenset[str]
    """Rows hold names of values of other tables, which become descriptors."""
    described: frozenset[str]
    """Descriptors of any files become values."""
    packed: frozenset[str]
    """Descriptors of managed blob files become values."""

    @property
    def all(self) -> frozenset[str]:
        return self.views | self.described | self.packed


@dataclass(frozen=True, slots=True)
class ReadValues:
    """Reads a split, and opens the files that its rows name."""

    read: ReadSplit
    columns: _Columns

    def __call__(
        self,
        table: FileStoreTable,
        split: DataSplit,
        plan_fields: Sequence[DataField],
        predicate: Predicate | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `read` with values of the columns; batches are cut so that they hold no more than usual.

        Raises:
            CorruptTableError: a descriptor is damaged, names no managed blob file of the table, or more than the
                managed blob file has.
            UnsupportedError: a file lies where files are not read.
            DataError: a file is missing or too short, or a value of another table is not there.
        """
        parts = [] if predicate is None else split_and(predicate)
        late = [part for part in parts if fields(part) & self.columns.all]  # they are true or false of values
        early = [part for part in parts if part not in late]
        names = {field.name for field in plan_fields}
        added = {name for part in late for name in fields(part)} - names
        wanted = (*plan_fields, *(field for field in table.schema.fields if field.name in added))
        batches = self._values(table, self.read(table, split, wanted, all_of(early) if early else None))
        yield from filter_and_project(batches, plan_fields, all_of(late)) if late else batches

    def _values(self, table: FileStoreTable, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        columns = self.columns
        views = Views(table, with_values)
        blob_files, described = Values(ManagedBlobs(table)), Values(_Described(table))
        for batch in batches:
            positions = {name: batch.schema.get_field_index(name) for name in columns.all & set(batch.schema.names)}
            arrays = list(batch.columns)
            for name in columns.views & positions.keys():
                column = arrays[positions[name]]
                arrays[positions[name]] = with_leaves(column, views.descriptors(leaves(column)))
            sources = {positions[name]: blob_files for name in columns.packed & positions.keys()}
            sources |= {positions[name]: described for name in columns.described & positions.keys()}
            sizes = sum((source.sizes(arrays[at]) for at, source in sources.items()), np.zeros(len(batch), np.int64))
            for part in portions(sizes, batch.num_rows, DEFAULT_BATCH_BYTES):
                rows = [array.slice(part.start, part.stop - part.start) for array in arrays]
                for at, source in sources.items():
                    rows[at] = with_leaves(rows[at], source.values(leaves(rows[at])))
                yield pa.RecordBatch.from_arrays(rows, schema=batch.schema)


class _Files(Protocol):
    """Files that descriptors name."""

    def open(self, uri: str) -> pa.NativeFile:
        """Open one."""

    def too_short(self, uri: str, size: int) -> Exception:
        """The error of a descriptor that names more than one has."""


class _Described:
    """Any files."""

    def __init__(self, table: FileStoreTable) -> None:
        self._files = DescribedFiles.of(table.paths.root, table.file_io, table.options)

    def open(self, uri: str) -> pa.NativeFile:
        return self._files.open(uri)

    def too_short(self, uri: str, size: int) -> Exception:
        return too_short(uri, size)


class Values:
    """Reads the values that descriptors name."""

    def __init__(self, files: _Files) -> None:
        self._files = files

    def sizes(self, column: pa.Array) -> Longs:
        """The bytes of the values of each row."""
        described = leaves(column)
        offsets, lengths = _positions(described)
        for at, uri in _by_file(described) if (lengths == _REST).any() else ():
            rest = at[lengths[at] == _REST]
            if len(rest):
                with self._files.open(uri) as file:
                    lengths[rest] = np.maximum(file.size() - offsets[rest], 0)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.minimum(lengths, _MOST_BYTES))])
        return np.diff(ends[leaf_bounds(column)])

    def values(self, described: pa.Array) -> pa.Array:
        """The values that descriptors name; null for null."""
        offsets, lengths = _positions(described)
        found: list[bytes | None] = [None] * len(described)
        left = _MOST_TOGETHER
        for at, uri in _by_file(described):
            for i, value in zip(at.tolist(), self._read(uri, offsets[at], lengths[at], left), strict=True):
                found[i] = value
                left -= len(value)
        return pa.array(found, described.type)

    def _read(self, uri: str, offsets: Longs, lengths: Longs, most_bytes: int) -> Iterator[bytes]:
        with self._files.open(uri) as file:
            size = file.size()
            if (offsets > size).any() or (lengths > size - offsets).any():
                raise self._files.too_short(uri, size)
            counts = np.where(lengths == _REST, size - offsets, lengths)
            if float(np.sum(counts, dtype=np.float64)) > most_bytes:
                raise DataError(
                    f"The BLOB values of one row have more than {_MOST_TOGETHER} bytes together, which Arrow cannot "
                    "hold. Read where they lie instead, with option 'blob-as-descriptor' = 'true'."
                )
            for offset, count in zip(offsets.tolist(), counts.tolist(), strict=True):
                value = bytes(file.read_at(count, offset))
                if len(value) != count:  # the file was cut meanwhile
                    raise self._files.too_short(uri, offset + len(value))
                yield value


def _by_file(described: pa.Array) -> Iterator[tuple[npt.NDArray[np.intp], str]]:
    """For each file that descriptors name, which of them do."""
    heads = pc.binary_slice(described, 0, -LOCATION).dictionary_encode()
    codes = heads.indices.fill_null(_REST).to_numpy(zero_copy_only=False)
    for code, head in enumerate(heads.dictionary.to_pylist()):
        try:
            uri = parse_head(head)
        except (ValueError, struct.error) as error:
            raise CorruptTableError(f"A row has a damaged BLOB descriptor: {error}.") from None
        yield np.flatnonzero(codes == code), uri


def _positions(described: pa.Array) -> tuple[Longs, Longs]:
    """Offset and length that each descriptor names; zeros for null, a length of -1 for all the rest of a file.

    Raises:
        CorruptTableError: one is too short, or names what cannot be.
    """
    lengths = pc.fill_null(pc.binary_length(described), LOCATION)
    if len(described) and pc.min(lengths).as_py() < LOCATION:
        raise CorruptTableError("A descriptor of a BLOB value is too short.")
    tails = pc.fill_null(pc.binary_slice(described, -LOCATION, None), bytes(LOCATION)).cast(pa.binary(LOCATION))
    numbers = np.frombuffer(b"".join(tails.to_pylist()), "<i8").reshape(-1, 2)
    if (numbers < (0, _REST)).any():
        raise CorruptTableError("A descriptor of a BLOB value names an offset below zero.")
    return numbers[:, 0].copy(), numbers[:, 1].copy()


class Views:
    """Looks up what rows of one table name."""

    def __init__(self, table: FileStoreTable, described: Callable[[ReadPlan], ReadPlan]) -> None:
        """Read nothing yet.

        Args:
            table: whose rows name values.
            described: gives a plan whose read gives descriptors; other tables may have BLOB views too.
        """
        self._table = table
        self._described = described
        self._known: dict[str, FileStoreTable] = {}

    def descriptors(self, views: pa.Array) -> pa.Array:
        """The descriptors of the values that are named; null where a name or the value is null.

        Raises:
            DataError: a name is damaged; there is no such table, column or row; tables name each other in a circle.
            UnsupportedError: the table lies in no warehouse, or the other table does not track its rows.
        """
        heads = pc.binary_slice(views, 0, -VIEW_TAIL).dictionary_encode()
        codes = heads.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        if len(views) and pc.min(pc.fill_null(pc.binary_length(views), VIEW_TAIL)).as_py() < VIEW_TAIL:
            raise self._damaged("it is too short")
        tails = pc.fill_null(pc.binary_slice(views, -VIEW_TAIL, None), bytes(VIEW_TAIL)).to_pylist()
        named = np.frombuffer(b"".join(tails), _TAIL)
        found, order = [], []
        for code, head in enumerate(heads.dictionary.to_pylist()):
            try:
                name = parse_view_head(head)
            except (ValueError, struct.error) as error:
                raise self._damaged(str(error)) from None
            for field_id in np.unique(named["field"][codes == code]).tolist():
                at = np.flatnonzero((codes == code) & (named["field"] == field_id))
                found.append(self._of_table(name, field_id, named["row"][at]))
                order.append(at)
        if not found:
            return pa.nulls(len(views), pa.binary())
        positions = np.zeros(len(views), np.int64)
        positions[np.concatenate(order)] = np.arange(sum(map(len, order)))
        return pa.concat_arrays(found).take(pa.array(positions, mask=codes < 0))

    def _of_table(self, name: str, field_id: int, wanted: Longs) -> pa.Array:
        """The descriptors of some rows of a column of another table."""
        table = self._upstream(name)
        field = next((field for field in table.schema.fields if field.id == field_id), None)
        if field is None:
            raise DataError(
                f"Cannot find blob fieldId {field_id} in upstream table {name}, which a BLOB view of table "
                f"{self._table.path} names."
            )
        ids = np.unique(wanted)
        depth = getattr(_DEPTH, "value", 0)
        if depth >= _DEEPEST:
            raise DataError(f"BLOB views of table {self._table.path} name each other in a circle.")
        _DEPTH.value = depth + 1
        try:
            batches = list(_rows(table, field.name, ids, self._described))
        finally:
            _DEPTH.value = depth
        row_ids = np.concatenate([np.zeros(0, np.int64), *(b.column(1).to_numpy() for b in batches)])
        order = np.argsort(row_ids)
        at = np.searchsorted(row_ids[order], wanted)
        missing = (
            (at >= len(row_ids)) | (row_ids[order][np.minimum(at, len(row_ids) - 1)] != wanted) if batches else [1]
        )
        if np.any(missing):
            row = wanted[np.flatnonzero(missing)[0]]
            raise DataError(
                f"Table {name} has no row with _ROW_ID {row}, which a BLOB view of table {self._table.path} names."
            )
        values = pa.concat_arrays([batch.column(0) for batch in batches])
        return values.take(pa.array(order[at]))

    def _upstream(self, name: str) -> FileStoreTable:
        if name not in self._known:
            warehouse, (database, dot, table) = warehouse_of(self._table.paths.root), name.partition(".")
            if warehouse is None:
                raise UnsupportedError(
                    f"Table {self._table.path} lies in no warehouse, and its BLOB views name tables of one. Read the "
                    "names themselves with option 'blob-view.resolve.enabled' = 'false'."
                )
            plain = parse_table_path(table).root if dot else ""
            if not is_plain_name(database) or not is_plain_name(plain):
                raise self._damaged(f"{name!r} is no name of a table")
            path = f"{warehouse}/{database}.db/{table}"
            try:
                self._known[name] = load_table(
                    path, options={"blob-as-descriptor": "true"}, file_io=self._table.file_io
                )
            except TableNotFoundError:
                raise DataError(
                    f"There is no table {name}, which a BLOB view of table {self._table.path} names."
                ) from None
        return self._known[name]

    def _damaged(self, why: str) -> DataError:
        return DataError(
            f"A value of option 'blob-view-field' of table {self._table.path} is no BLOB view: {why}. blob-view-field "
            "requires blob field value to be a serialized BlobViewStruct."
        )


def _rows(
    table: FileStoreTable, column: str, ids: Longs, described: Callable[[ReadPlan], ReadPlan]
) -> Iterator[pa.RecordBatch]:
    """Yield descriptors of a column and row ids, of rows with some ids."""
    plan = described(TableScan.of(table, ROW_TRACKING).select(columns=[column, ROW_ID.name]).plan())
    residual = Leaf("in", ROW_ID.name, tuple(ids.tolist()))
    for split in plan.splits:
        part = _of_ids(split, ids)
        if part.files:
            yield from plan.read(plan.table, part, plan.fields, residual)


def _of_ids(split: DataSplit, ids: Longs) -> DataSplit:
    """A split without groups of files that hold none of some rows."""
    kept = []
    for group in groups_of_rows(split.files):
        bounds = [(f.first_row_id, f.first_row_id + f.row_count) for f in group if f.first_row_id is not None]
        start, end = min((b for b, _ in bounds), default=0), max((e for _, e in bounds), default=1 << 62)
        if np.searchsorted(ids, start) < np.searchsorted(ids, end):
            kept += [file for file in split.files if file in group]
    return replace(split, files=tuple(kept))
