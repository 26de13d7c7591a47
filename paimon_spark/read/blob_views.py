"""BLOB columns that hold names of values of other tables (``blob-view-field``): where these values lie. Runs in tasks.

Equals Java's ``BlobViewStruct`` and ``BlobViewLookup``. The other table lies in the same warehouse and tracks its rows:
a name has the table, the id of its column and the id of the row. Its latest rows are read.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError, TableNotFoundError, UnsupportedError
from paimon_spark.read.data_evolution import groups_of_rows
from paimon_spark.read.row_tracking import ROW_TRACKING
from paimon_spark.read.table_scan import TableScan
from paimon_spark.spec.predicate import Leaf
from paimon_spark.spec.special_fields import ROW_ID
from paimon_spark.storage.blob_views import VIEW_TAIL, parse_view_head
from paimon_spark.storage.described_files import warehouse_of
from paimon_spark.table.paths import is_plain_name, parse_table_path
from paimon_spark.table.table import load_table

if TYPE_CHECKING:
    from paimon_spark.read.plan import ReadPlan
    from paimon_spark.read.split import DataSplit
    from paimon_spark.table.table import FileStoreTable

Longs = npt.NDArray[np.int64]
_TAIL: Final = np.dtype([("field", "<i4"), ("row", "<i8")])
_DEEPEST: Final = 16
_DEPTH = threading.local()


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
