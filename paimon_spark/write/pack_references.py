"""The file beside a data file that names the packs its rows need (Java: ``ManagedBlobReferenceCollector``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.spec.file_names import BLOB_REFERENCES_SUFFIX
from paimon_spark.spec.row_kind import is_retract
from paimon_spark.spec.special_fields import VALUE_KIND
from paimon_spark.storage.blob_descriptor import PLACE, uris
from paimon_spark.storage.blob_leaves import leaves
from paimon_spark.storage.blob_references import PackName, encode_references

if TYPE_CHECKING:
    from paimon_spark.storage.file_io import FileIO


class PackReferences:
    """Notes which packs the rows of one data file need, and writes the file that says so."""

    def __init__(self, file_io: FileIO, path: str, columns: tuple[str, ...]) -> None:
        """Write nothing yet.

        Args:
            file_io: the store.
            path: of the data file.
            columns: BLOB columns whose values lie in packs.
        """
        self._file_io = file_io
        self._path = path + BLOB_REFERENCES_SUFFIX
        self._columns = columns
        self._uris: set[str] = set()

    def add(self, rows: pa.Table) -> None:
        """Look at rows of the file; -U and -D rows need nothing.

        Raises:
            CorruptTableError: a descriptor is damaged.
        """
        stays = ~is_retract(rows.column(VALUE_KIND.name).to_numpy())
        chosen = rows.select(list(self._columns))
        if not stays.all():
            chosen = chosen.filter(pa.array(stays))
        for column in chosen.columns:
            for chunk in column.chunks:
                self._uris |= uris(pc.binary_slice(leaves(chunk), 0, -PLACE), self._path)

    def close(self) -> str:
        """Write the file; return its name."""
        packs = (PackName.of_uri(uri) for uri in self._uris)
        self._file_io.write_bytes(self._path, encode_references(pack for pack in packs if pack is not None))
        return self._path.rpartition("/")[2]

    def abort(self) -> None:
        """Delete the file."""
        self._file_io.delete_quietly(self._path)
