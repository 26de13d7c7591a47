"""What a task of a write needs of the writer of one (partition, bucket)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from paimon_spark.spec.manifest import DataFileMeta


class BucketWriter(Protocol):
    """Writes the rows of one (partition, bucket)."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the rows in memory."""

    @property
    def is_open(self) -> bool:
        """Whether a file is open."""

    @property
    def changelog_files(self) -> tuple[DataFileMeta, ...]:
        """Changelog files of the rows that are written."""

    def write(self, rows: pa.Table, kinds: npt.NDArray[np.int8] | None) -> None:
        """Take rows."""

    def flush(self) -> None:
        """Write what is buffered."""

    def release_file(self) -> None:
        """Finish the open file."""

    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish and return all files."""

    def abort(self) -> None:
        """Delete all files."""
