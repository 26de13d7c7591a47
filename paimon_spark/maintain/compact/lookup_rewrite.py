"""One unit of a compaction with lookup: level-0 rows are joined by key with the newest older rows, and move up.

Equals Java's ``LookupMergeTreeCompactRewriter``. Out of it come data files, changelog files, and the positions of rows
in higher levels that are replaced. Runs in tasks; memory is bounded as that of other rewrites.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.maintain.compact.top_level_changelog import ignored_columns
from paimon_spark.merge.factory import merge_engine_for
from paimon_spark.merge.lookup import LookupMerge, lookup_engine, rows_of_keys
from paimon_spark.merge.stream import aligned_batches, block_bytes
from paimon_spark.read.file_read import FileRead
from paimon_spark.read.record_expiry import RecordExpiry
from paimon_spark.read.row_positions import RowPositions
from paimon_spark.read.sections import runs_of
from paimon_spark.read.split_read import partition_scalars
from paimon_spark.spec.binary_row import decode_rows
from paimon_spark.spec.data_types import BigIntType, DateType, IntType, SmallIntType, TinyIntType, VarCharType
from paimon_spark.spec.predicate import Leaf, Predicate
from paimon_spark.spec.special_fields import without_retracts

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions
    from paimon_spark.read.split import SplitFile
    from paimon_spark.table.table import FileStoreTable

_COMPARABLE = (TinyIntType, SmallIntType, IntType, BigIntType, DateType, VarCharType)
_FILE = "_FILE"
_POSITION = "_POSITION"


@dataclass
class Deletions:
    """Positions of rows of higher levels that newer rows replace, by file. Grows while rows are merged."""

    def __post_init__(self) -> None:
        self._found: dict[str, list[np.ndarray]] = defaultdict(list)

    def add(self, names: Sequence[str], rows: pa.Table) -> None:
        """Note rows with the columns number of the file and position."""
        files, positions = rows.column(_FILE).to_numpy(), rows.column(_POSITION).to_numpy()
        for number in np.unique(files).tolist():
            self._found[names[number]].append(positions[files == number])

    def packed(self) -> tuple[tuple[str, bytes], ...]:
        """What `RewriteResult.deletions` holds."""
        return tuple(
            (name, np.sort(np.concatenate(parts)).astype("<i8").tobytes()) for name, parts in self._found.items()
        )


class LookupRewrite:
    """Reads and merges the files of one rewrite."""

    def __init__(
        self,
        table: FileStoreTable,
        partition: bytes,
        sections: Sequence[Sequence[SplitFile]],
        higher_runs: Sequence[Sequence[SplitFile]],
        *,
        changelog: bool,
        drop_deletes: bool,
    ) -> None:
        """Open nothing yet.

        Args:
            table: with the schema and options that the new files get.
            partition: serialized partition values.
            sections: groups of files with overlapping key ranges, in key order, some of level 0.
            higher_runs: in which older rows are looked up, the highest level first.
            changelog: whether a changelog is made.
            drop_deletes: whether merged rows of kind -U and -D are left out.
        """
        self._table = table
        self._files = [file for section in sections for file in section]
        self._higher_runs = higher_runs
        self._changelog = changelog
        self._drop_deletes = drop_deletes
        self._engine = merge_engine_for(table.schema)
        self._constants = partition_scalars(table, partition)
        self._budget = int(table.options.value("read.merge.memory-budget"))
        self.deletions = Deletions()

    @cached_property
    def _merge(self) -> LookupMerge:
        options = self._table.options
        return LookupMerge(
            lookup_engine(self._engine),
            first_row=options.merge_engine == "first-row",
            # Java: takes the row of level 0 even then
            whole_rows=whole_rows_are_needed(options)
            or (options.merge_engine != "first-row" and holds_older_rows(self._files, self._higher_runs)),
            changelog=self._changelog,
            ignored=ignored_columns(options),
        )

    def pieces(self) -> Iterator[tuple[pa.Table, pa.Table | None]]:
        """Yield merged rows, in key order, and their changelog; `deletions` grows meanwhile.

        Raises:
            CorruptTableError: a data file is missing or damaged.
            DataError: the merge engine cannot take a row.
        """
        runs = runs_of(self._files)
        above_zero = sum(run[0].level > 0 for run in runs)
        higher = self._higher_runs
        names = [file.name for run in higher for file in run]
        size = block_bytes(self._budget, len(runs) + len(higher))
        schema = self._table.schema
        expiry = RecordExpiry.of(self._table)
        fields = tuple(schema.fields)
        reader = FileRead(self._table, fields, self._constants, key_value=True, batch_bytes=size, expiry=expiry)
        streams = [*self._higher_streams(higher, size), *(reader.run(run, None) for run in runs)]
        keys = schema.trimmed_primary_keys
        for piece in aligned_batches(streams, keys, budget_bytes=self._budget, followers=len(higher)):
            above, newer = (
                [batch for run in part for batch in run]
                for part in (piece[len(higher) : len(higher) + above_zero], piece[len(higher) + above_zero :])
            )
            if not above and not newer:
                continue
            rows = pa.Table.from_batches([*above, *newer])
            found = rows_of_keys(piece[: len(higher)], rows, keys)
            del piece
            result = self._merge.merge(found, rows, sum(batch.num_rows for batch in above))
            if found is not None and len(result.found) and self._deletes_older_rows:
                self.deletions.add(names, found.select([_FILE, _POSITION]).take(pa.array(result.found)))
            rows = without_retracts(result.rows) if self._drop_deletes else result.rows
            yield rows, result.changelog

    @cached_property
    def _key_range(self) -> Predicate | None:
        """A condition on the first key column that holds for all keys that are compacted; None where there is none."""
        schema = self._table.schema
        keys = [schema.field(name) for name in schema.trimmed_primary_keys]
        if not isinstance(keys[0].type, _COMPARABLE) or any(file.schema_id != schema.id for file in self._files):
            return None
        bounds = [bound for file in self._files for bound in (file.min_key, file.max_key)]
        values = decode_rows(bounds, [key.type for key in keys], serialized=True, fields=[0])[0]
        if values.null_count:
            return None
        ends = pc.min_max(values).as_py()
        return Leaf("between", keys[0].name, (ends["min"], ends["max"]))

    @property
    def _deletes_older_rows(self) -> bool:
        return self._table.options.deletion_vectors_enabled

    def _higher_streams(self, runs: Sequence[Sequence[SplitFile]], size: int) -> Iterator[Iterator[pa.RecordBatch]]:
        schema = self._table.schema
        whole = self._merge.whole_rows
        keys = schema.trimmed_primary_keys
        fields = tuple(f for f in schema.fields if whole or f.name in keys)
        reader = FileRead(
            self._table,
            fields,
            self._constants,
            key_value=whole,
            batch_bytes=size,
            filters_rows=False,
            dictionaries=frozenset(field.name for field in fields if field.name not in keys),
        )
        first = 0
        expiry = RecordExpiry.of(self._table) if whole else None
        for run in runs:
            rows = self._numbered(reader, run, first)
            yield rows if expiry is None else expiry.kept(rows)
            first += len(run)

    def _numbered(self, reader: FileRead, run: Sequence[SplitFile], first: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a run, where rows are to be marked with the number of their file and their position."""
        for number, file in enumerate(run, first):
            if not self._deletes_older_rows:
                yield from reader.batches(file, self._key_range)
                continue
            positions = RowPositions(self._table, file)
            for batch in reader.batches(file, None):
                numbers = np.full(batch.num_rows, number, np.int32)
                yield pa.RecordBatch.from_arrays(
                    [*batch.columns, pa.array(numbers), pa.array(positions.take(batch.num_rows))],
                    names=[*batch.schema.names, _FILE, _POSITION],
                )


def holds_older_rows(files: Sequence[SplitFile], higher_runs: Iterable[Sequence[SplitFile]]) -> bool:
    """Whether files of level 0 may hold older rows than those of higher levels: of writers that knew neither."""
    lowest = min((file.min_seq for file in files if file.level == 0), default=None)
    return lowest is not None and any(file.max_seq >= lowest for run in higher_runs for file in run)


def whole_rows_are_needed(options: CoreOptions) -> bool:
    """Whether values of older rows count, or only where these rows are."""
    if options.merge_engine == "first-row":
        return False
    positions_do = options.deletion_vectors_enabled and not makes_changelog(options)
    return not (positions_do and options.merge_engine == "deduplicate" and not options.sequence_fields)


def makes_changelog(options: CoreOptions) -> bool:
    """Whether compactions of level 0 make a changelog."""
    return options.changelog_producer == "lookup"
