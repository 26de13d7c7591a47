"""Cuts merged splits between row groups, where no key lies on both sides, by what the footers of the files say.

Files whose keys overlap are merged as a whole (`sections`). The footers of Parquet files say more: which keys each row
group holds (and which columns have no nulls). Row groups whose keys no other file has are rows as they are, which any
reader of Parquet reads. The others become splits of their own, which tasks merge side by side. Runs on the driver,
which reads the footers in as many threads as the store answers. Names of files are unique, so what was read stays true:
the last found are kept.

Keys are compared by their first column alone: row groups that share none of its values share no key.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from paimon_spark.read.sections import has_no_deletes, sections_of
from paimon_spark.read.split import DataSplit, KeyRangeSplit, RowGroups, SplitFile
from paimon_spark.spec import data_types as t
from paimon_spark.spec.binary_row_decoder import column_ranks
from paimon_spark.spec.kept_values import LastUsed
from paimon_spark.spec.special_fields import KEY_FIELD_PREFIX
from paimon_spark.storage.formats import open_data_file
from paimon_spark.storage.parquet_format import ParquetReader

if TYPE_CHECKING:
    import numpy.typing as npt

    from paimon_spark.table.table import FileStoreTable

T = TypeVar("T")

MOST_FILES: Final = 4096
"""Footers of more files are not read for one query."""


_KEPT: Final = LastUsed[Any](2 * MOST_FILES)


@dataclass(frozen=True, slots=True)
class RowGroupKeys:
    """Of each row group of a file its rows, the least and greatest first column of its keys, and its first byte."""

    rows: tuple[int, ...]
    low: pa.Array
    high: pa.Array
    starts: tuple[int, ...]


def row_group_keys(table: FileStoreTable, files: Iterable[SplitFile]) -> dict[str, RowGroupKeys | None]:
    """Read which keys the row groups of files hold; None for a file that does not tell.

    Args:
        table: with a primary key.
        files: Parquet files.

    Raises:
        CorruptTableError: a data file is missing or damaged.
    """
    key = table.schema.field(table.schema.trimmed_primary_keys[0])
    return _of_each(table, files, ("keys", key.id, key.name, str(key.type)), _keys_of)


def null_counts(
    table: FileStoreTable, files: Iterable[SplitFile], columns: tuple[str, ...]
) -> dict[str, Mapping[str, int | None]]:
    """Read how many nulls each of these columns has in each file; None where that is not told.

    Args:
        table: whose files they are.
        files: Parquet files.
        columns: names that the files have for them.

    Raises:
        CorruptTableError: a data file is missing or damaged.
    """

    def nulls_of(reader: ParquetReader, _table: FileStoreTable, _file: SplitFile) -> Mapping[str, int | None]:
        return {name: reader.null_count(name) for name in columns}

    return _of_each(table, files, ("nulls", columns), nulls_of)


def _of_each(
    table: FileStoreTable,
    files: Iterable[SplitFile],
    what: Hashable,
    find: Callable[[ParquetReader, FileStoreTable, SplitFile], T],
) -> dict[str, T]:
    def of(file: SplitFile) -> T:
        def read() -> T:
            with open_data_file(table.file_io, file.path, file.format, file.size, rows=file.row_count) as reader:
                assert isinstance(reader, ParquetReader)
                return find(reader, table, file)

        found: T = _KEPT.of((what, table.file_io.address, file.path, file.size), read)
        return found

    by_path = {file.path: file for file in files}
    with ThreadPoolExecutor(table.file_io.threads) as pool:
        return dict(zip(by_path, pool.map(of, by_path.values()), strict=True))


def _keys_of(reader: ParquetReader, table: FileStoreTable, file: SplitFile) -> RowGroupKeys | None:
    key = table.schema.field(table.schema.trimmed_primary_keys[0])
    own = next((field for field in table.schemas.get(file.schema_id).fields if field.id == key.id), None)
    if own is None or own.type.with_nullable(True) != key.type.with_nullable(True):
        return None
    found = reader.row_group_bounds(KEY_FIELD_PREFIX + own.name) or reader.row_group_bounds(own.name)
    if found is None or found[0].null_count or found[1].null_count:
        return None
    return RowGroupKeys(tuple(reader.row_group_rows), *found, tuple(reader.row_group_starts()))


LEAST_ROWS: Final = 1 << 17
"""Row groups that need no merging are read as they are where they have so many rows in a row."""
_LEAST_MERGED_BYTES: Final = 16 << 20
"""Neighbouring sections of fewer bytes are merged by one task."""
_HEAVY: Final = 3
"""A split of more than so many times a task's share is cut: a task and its Python worker keep two cores busy."""
_KEY_TYPES: Final = (
    t.TinyIntType,
    t.SmallIntType,
    t.IntType,
    t.BigIntType,
    t.DateType,
    t.CharType,
    t.VarCharType,
)
"""Of the first column of a key: types whose values Parquet's statistics hold as they are."""


_Cut = Callable[[DataSplit, Sequence["RowGroupKeys"]], Iterable[DataSplit]]


@dataclass(frozen=True, slots=True)
class _Piece:
    """One row group of a file of a split."""

    file: int
    at: int
    rows: int


def cut_by_keys(table: FileStoreTable, splits: Sequence[DataSplit]) -> list[DataSplit]:
    """Cut the splits that are merged between row groups, where that leaves many rows that need no merging.

    Args:
        table: of the plan, with a primary key.
        splits: of one snapshot.

    Returns:
        Splits of the same rows; those that cannot be cut are the same objects.

    Raises:
        CorruptTableError: a data file is missing or damaged.
    """
    return list(_each_cut(table, splits, [split for split in splits if _may_be_cut(table, split)], _cut))


def in_key_ranges(table: FileStoreTable, splits: Sequence[DataSplit], cores: int) -> list[DataSplit]:
    """Cut merged splits that one task would read while others have nothing to do into ranges of keys.

    Args:
        table: of the plan.
        splits: of one read, by `read_split`.
        cores: how many tasks can run at once.

    Returns:
        Splits of the same rows; those that cannot be cut are the same objects.

    Raises:
        CorruptTableError: a data file is missing or damaged.
    """
    if cores <= _HEAVY or not table.schema.kind.is_keyed:
        return list(splits)
    share = max(_LEAST_MERGED_BYTES, sum(split.size_bytes for split in splits) // max(1, cores))
    heavy = [split for split in splits if split.size_bytes > _HEAVY * share and _is_merged(table, split)]
    key = table.schema.trimmed_primary_keys[0]

    def ranges(split: DataSplit, footers: Sequence[RowGroupKeys]) -> Iterable[DataSplit]:
        return _ranges(split, footers, key, -(-split.size_bytes // share))

    return list(_each_cut(table, splits, heavy, ranges))


def _each_cut(
    table: FileStoreTable, splits: Iterable[DataSplit], chosen: Sequence[DataSplit], cut: _Cut
) -> Iterator[DataSplit]:
    """Yield the splits, cut where they are chosen and the footers of all their files tell keys."""
    files = {file.path: file for split in chosen for file in split.files}
    found = row_group_keys(table, files.values()) if 0 < len(files) <= MOST_FILES else {}
    ids = {id(split) for split in chosen}
    for split in splits:
        footers = [found.get(file.path) for file in split.files] if id(split) in ids else [None]
        known = [footer for footer in footers if footer is not None]
        if len(known) == len(footers):
            yield from cut(split, known)
        else:
            yield split


def _ranges(split: DataSplit, footers: Sequence[RowGroupKeys], key: str, parts: int) -> Iterator[DataSplit]:
    pieces, keys, low, high = _pieces(split, footers)
    order = np.argsort(low, kind="stable")
    rows = np.cumsum([pieces[at].rows for at in order])
    wanted = rows[-1] * np.arange(1, parts) // parts
    cuts = np.unique(low[order[np.searchsorted(rows, wanted)]])
    cuts = cuts[cuts > low.min()]
    if not len(cuts):
        yield split
        return
    at_cut = [keys[int(np.flatnonzero(low == cut)[0])].as_py() for cut in cuts]
    bounds = zip([low.min(), *cuts], [*cuts, high.max() + 1], [None, *at_cut], [*at_cut, None], strict=True)
    for first, end, least, below in bounds:
        inside = [piece for piece, lo, hi in zip(pieces, low, high, strict=True) if hi >= first and lo < end]
        yield KeyRangeSplit.of(split, _files(split, footers, inside, raw=False), key, least, below)


def _may_be_cut(table: FileStoreTable, split: DataSplit) -> bool:
    """Whether a split has row groups enough for it to pay, in files whose keys can be told."""
    return _is_merged(table, split) and any(
        file.row_count > LEAST_ROWS and has_no_deletes(file) for file in split.files
    )


def _is_merged(table: FileStoreTable, split: DataSplit) -> bool:
    """Whether files are merged whose keys can be told."""
    return (
        type(split) is DataSplit
        and not split.raw_convertible
        and isinstance(table.schema.field(table.schema.trimmed_primary_keys[0]).type, _KEY_TYPES)
        and all(file.format == "parquet" for file in split.files)
    )


def _cut(split: DataSplit, footers: Sequence[RowGroupKeys]) -> list[DataSplit]:
    pieces, _, low, high = _pieces(split, footers)
    if not _is_in_order(pieces, low, high):
        return [split]
    parts = list(_parts(split, sections_of(pieces, low, high)))
    if not any(raw for raw, _ in parts):
        return [split]
    return [replace(split, files=_files(split, footers, part, raw=raw), raw_convertible=raw) for raw, part in parts]


def _pieces(
    split: DataSplit, footers: Sequence[RowGroupKeys]
) -> tuple[list[_Piece], pa.Array, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The row groups of a split, their least keys, and the ranks of their least and greatest keys."""
    whole = [range(len(footer.rows)) for footer in footers]
    chosen = [
        groups if file.row_groups is None else file.row_groups.indexes(len(groups))
        for file, groups in zip(split.files, whole, strict=True)
    ]
    pieces = [_Piece(file, at, footers[file].rows[at]) for file, groups in enumerate(chosen) for at in groups]
    low, high = (
        pa.concat_arrays([end.slice(groups.start, len(groups)) for end, groups in zip(ends, chosen, strict=True)])
        for ends in ([footer.low for footer in footers], [footer.high for footer in footers])
    )
    ranks = column_ranks(pa.concat_arrays([low, high]))
    return pieces, low, ranks[: len(pieces)], ranks[len(pieces) :]


def _is_in_order(pieces: Sequence[_Piece], low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]) -> bool:
    """Whether the row groups of each file are in the order of their keys, as a writer of sorted runs leaves them."""
    same = np.array([before.file == after.file for before, after in pairwise(pieces)], dtype=bool)
    return bool(np.all(low <= high) and np.all(high[:-1][same] <= low[1:][same]))


def _parts(split: DataSplit, sections: Sequence[list[_Piece]]) -> Iterator[tuple[bool, list[_Piece]]]:
    """Yield row groups that become a split each, and whether they are read as they are.

    Row groups of one file that are rows as they are stay together; few of them are merged with their neighbours, and so
    are small sections.
    """
    merged: list[_Piece] = []
    for file, group in groupby(sections, lambda section: _lone_file(split, section)):
        if file is not None:
            pieces = list(chain.from_iterable(group))
            if sum(piece.rows for piece in pieces) < LEAST_ROWS:
                merged += pieces
                continue
            if merged:
                yield False, merged
            yield True, pieces
            merged = []
            continue
        for section in group:
            if _bytes(split, merged) >= _LEAST_MERGED_BYTES:
                yield False, merged
                merged = []
            merged = merged + section
    if merged:
        yield False, merged


def _lone_file(split: DataSplit, section: Sequence[_Piece]) -> int | None:
    """The file whose rows a section is, as they are; None where it is merged."""
    files = {piece.file for piece in section}
    return section[0].file if len(files) == 1 and has_no_deletes(split.files[section[0].file]) else None


def _bytes(split: DataSplit, pieces: Sequence[_Piece]) -> int:
    files = split.files
    return sum(files[piece.file].size * piece.rows // max(1, files[piece.file].row_count) for piece in pieces)


def _files(
    split: DataSplit, footers: Sequence[RowGroupKeys], pieces: Sequence[_Piece], *, raw: bool
) -> tuple[SplitFile, ...]:
    """The row groups of each file: one stretch of it, since they are in the order of their keys."""
    found: dict[int, list[int]] = {}
    for piece in pieces:
        found.setdefault(piece.file, []).append(piece.at)
    files = []
    for at, groups in sorted(found.items()):
        file, footer, first, end = split.files[at], footers[at], min(groups), max(groups) + 1
        starts = (*footer.starts, file.size)
        if (first, end) != (0, len(footer.rows)):
            file = file._replace(row_groups=RowGroups(first, end, len(footer.rows), starts[first], starts[end]))
        files.append(file._replace(min_key=b"", max_key=b"") if raw else file)
    return tuple(files)
