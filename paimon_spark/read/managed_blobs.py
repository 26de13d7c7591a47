"""Packs of BLOB values of tables with primary keys: data files hold descriptors of places in them.

Java: ``PrimaryKeyBlobExternalizer``. A pack, ``*.managed.blob``, lies in a bucket's directory; compactions keep the
descriptors, so that a pack serves many data files. Only files of the table's own directory are opened. Runs in tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.file_names import MANAGED_BLOB_SUFFIX
from paimon_spark.storage.column_reading import corrupt_as
from paimon_spark.storage.store_options import redact
from paimon_spark.table.paths import plain_path

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_spark.table.table import FileStoreTable


class Packs:
    """Opens the packs of a table."""

    def __init__(self, table: FileStoreTable) -> None:
        self._table = table
        self._root = plain_path(table.paths.root) + "/"

    def open(self, uri: str) -> pa.NativeFile:
        """Open a pack.

        Raises:
            CorruptTableError: it is none of the table's own, or not there.
        """
        path = self.path(uri)
        with corrupt_as(path, "blob"):
            return self._table.file_io.open_input(path, None)

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

    def too_short(self, uri: str, size: int) -> CorruptTableError:
        """The error of a row that names more than a pack has."""
        path = self.path(uri)
        return CorruptTableError(f"Blob file {path} has {size} bytes, and a row names more of it.", path=path)
