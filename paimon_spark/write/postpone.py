"""Tables whose buckets are postponed (``bucket`` = -2): postponed rows, and how many buckets they get.

Java: ``PostponeBucketFileStoreWrite``, ``PostponeBucketWriter``, ``PostponeUtils``. Postponed rows lie in the directory
``bucket-postpone``, as they came: neither sorted nor merged, and not seen by reads.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.spec.arrow_types import to_arrow_field
from paimon_spark.spec.file_names import POSTPONE_BUCKET, POSTPONED_INFIX
from paimon_spark.spec.manifest import ManifestEntry
from paimon_spark.spec.special_fields import SEQUENCE_NUMBER, VALUE_KIND, RowKind, is_retract
from paimon_spark.storage.avro_encoding import file_schema
from paimon_spark.write.data_file_spec import DataFileSpec, data_file_spec
from paimon_spark.write.rolling import RollingFiles
from paimon_spark.write.row_writers import physical_rows

if TYPE_CHECKING:
    from paimon_spark.merge.factory import MergeEngine
    from paimon_spark.options import CoreOptions
    from paimon_spark.spec.manifest import DataFileMeta
    from paimon_spark.spec.schema import TableSchema

_MOST = "postpone.batch-write-fixed-bucket.max-parallelism"
_FACTOR = "postpone.batch-write-fixed-bucket.rescale-load-factor"
_MOST_WRITERS = 2**31 - 1
_NO_SEQUENCE = -1


def writes_real_buckets(options: CoreOptions) -> bool:
    """Whether batch writes go to real buckets (``postpone.batch-write-fixed-bucket``)."""
    return bool(options.value("postpone.batch-write-fixed-bucket"))


def postponed_spec(schema: TableSchema, user: str) -> DataFileSpec:
    """How one writer's postponed files are written: its own prefix says which files belong together, in their order."""
    own = {**schema.options, "metadata.stats-mode": "none"}
    with contextlib.suppress(UnsupportedError):  # as in Java: what Avro cannot hold stays in the table's format
        file_schema(schema.fields)
        own["file.format"] = "avro"
    spec = data_file_spec(schema.with_options(own))
    return replace(spec, prefix=f"{spec.prefix}-u-{user}-s-{random.randrange(_MOST_WRITERS)}{POSTPONED_INFIX}")


class PostponedWriter:
    """Writes postponed rows of one partition as they come."""

    def __init__(self, spec: DataFileSpec, engine: MergeEngine, files: RollingFiles) -> None:
        """Write nothing yet.

        Args:
            spec: how files are written.
            engine: says whether the table takes retractions.
            files: of the partition.
        """
        self._spec = spec
        self._engine = engine
        self._files = files
        self._checked = False
        self.buffered_bytes = 0

    @property
    def is_open(self) -> bool:
        """Whether a file is open."""
        return self._files.is_open

    def write(self, rows: pa.Table, kinds: npt.NDArray[np.int8] | None) -> None:
        """Take rows.

        Raises:
            DataError: the merge engine takes no retractions, and there is one.
        """
        count = rows.num_rows
        given = np.full(count, RowKind.INSERT, dtype=np.int8) if kinds is None else kinds
        sequences = pa.array(np.full(count, _NO_SEQUENCE, dtype=np.int64))
        rows = rows.append_column(to_arrow_field(SEQUENCE_NUMBER), [sequences])
        rows = rows.append_column(to_arrow_field(VALUE_KIND), [pa.array(given)])
        retracts = np.flatnonzero(is_retract(given))
        if len(retracts) and not self._checked:
            one = rows.slice(int(retracts[0]), 1)
            self._engine.merge(pa.concat_tables([one, one]), drop_deletes=False, columns=None)  # says so, if not
            self._checked = True
        self._files.write(physical_rows(rows, self._spec))

    def flush(self) -> None:
        """Nothing is buffered."""

    def release_file(self) -> None:
        """Finish the open file; later rows go to a new one, whose name comes after."""
        self._files.roll()

    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish and return all files."""
        return tuple(self._files.close())

    @property
    def changelog_files(self) -> tuple[DataFileMeta, ...]:
        """None: postponed rows are no change yet."""
        return ()

    def abort(self) -> None:
        """Delete all files."""
        self._files.abort()


def known_buckets(entries: Iterable[ManifestEntry]) -> dict[bytes, int]:
    """The number of buckets of each partition that has real ones."""
    return {e.partition: e.total_buckets for e in entries if e.bucket != POSTPONE_BUCKET and e.total_buckets > 0}


def buckets_of_postponed(options: CoreOptions, rows: int, size_bytes: int, existing: int | None = None) -> int:
    """How many buckets a compaction gives to a partition that has none yet; others keep theirs.

    Raises:
        OptionError: an option is not above zero.
    """
    if existing is not None:
        return existing
    default = options.value("postpone.default-bucket-num")
    if default is not None:
        return _positive("postpone.default-bucket-num", default)
    return _required(options, rows, size_bytes)


def buckets_of_batch(options: CoreOptions, rows: int, size_bytes: int, existing: int | None = None) -> int:
    """How many buckets a partition gets by a batch write: a power of two, if nobody says otherwise.

    Java: ``PostponeUtils.decideFixedBucketNum``. A partition keeps its buckets unless the batch needs more than
    ``postpone.batch-write-fixed-bucket.rescale-load-factor`` times as many: then it is rescaled first.

    Args:
        options: of the table.
        rows: of the batch in the partition.
        size_bytes: of its postponed files.
        existing: the number of buckets that the partition has; None if it has none.

    Raises:
        OptionError: an option is not above zero.
    """
    default = options.value("postpone.default-bucket-num")
    if existing is None and default is not None:
        return _positive("postpone.default-bucket-num", default)
    most, factor = (_positive(key, options.value(key)) for key in (_MOST, _FACTOR))
    required = _required(options, rows, size_bytes)
    suggested = min(1 << (min(required, most) - 1).bit_length(), most)
    if existing is None or (required > existing * factor and suggested > existing):
        return suggested
    return existing


def _required(options: CoreOptions, rows: int, size_bytes: int) -> int:
    by_rows, by_size = "postpone.target-row-num-per-bucket", "postpone.target-size-per-bucket"
    target = options.value(by_rows)
    value, key = (rows, by_rows) if target is not None else (size_bytes, by_size)
    return max(1, -(-value // _positive(key, options.value(key))))


def _positive(key: str, value: int) -> int:
    if value <= 0:
        raise OptionError(f"Option '{key}' must be greater than 0.")
    return int(value)


def needs_buckets() -> UnsupportedError:
    """The error of a write that cannot bring the rows of a bucket together."""
    return UnsupportedError(
        "Rows of a table with 'bucket' = '-2' are counted before they get real buckets, which a save by "
        "format('paimon') cannot do in this session. Write with PaimonTable.for_path(spark, path).append(df) or "
        ".overwrite(df), or with INSERT INTO by paimon_spark.sql; or set 'postpone.batch-write-fixed-bucket' to "
        "'false', so that the rows are postponed until CALL sys.compact."
    )
