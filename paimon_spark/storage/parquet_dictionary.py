"""Which columns of a Parquet file are worth a dictionary, by a sample of its first row group, and which have one.

pyarrow tries a dictionary on every column and falls back to plain values only when the dictionary is full: on columns
of many values that costs a third of the encoding and makes the file larger. Java's writer looks at its first page
instead and goes back to plain where the dictionary did not pay. Pure functions; run in tasks, once per file.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_PARTS: Final = 64
_PART_ROWS: Final = 256
LEAST_ROWS: Final = _PARTS * _PART_ROWS
"""With fewer rows no sample is taken: every column gets a dictionary."""

_INTEGERS: Final = {1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}
_WORTH: Final = 0.45
"""Dictionary entries by row up to which a dictionary pays."""


def dictionary_columns(rows: pa.Table, limit_bytes: int) -> bool | list[str]:
    """What pyarrow's ``use_dictionary`` should be for a file that starts with these rows.

    Args:
        rows: the rows of the first row group, in the file's physical types.
        limit_bytes: the size beyond which a dictionary is given up (``parquet.dictionary.page.size``).

    Returns:
        True for every column, or the paths of the columns that get a dictionary. Nested columns always do.
    """
    if rows.num_rows < LEAST_ROWS:
        return True
    sample = _sample(rows)
    plain = {
        field.name
        for field, column in zip(sample.schema, sample.columns, strict=True)
        if _mostly_distinct(column, rows.num_rows, limit_bytes)
    }
    if not plain:
        return True
    return [path for field in rows.schema if field.name not in plain for path in _leaves(field.name, field.type)]


def _sample(rows: pa.Table) -> pa.Table:
    """Short runs of rows, one from each of equally long stretches: neighbours tell of repetition in sorted columns."""
    stretch = rows.num_rows // _PARTS
    within = np.random.default_rng(0).integers(0, stretch - _PART_ROWS + 1, _PARTS)
    starts = np.arange(_PARTS) * stretch + within
    return pa.concat_tables([rows.slice(start, _PART_ROWS) for start in starts.tolist()])


def _mostly_distinct(column: pa.ChunkedArray, rows: int, limit_bytes: int) -> bool:
    """Whether nearly half of a column's rows would be dictionary entries, or the dictionary would be given up."""
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return False
    known = len(column) - column.null_count
    if known < LEAST_ROWS // 4:
        return False
    whole = column.combine_chunks()
    # values that stand next to their like (a changelog has each key twice) tell only how long the runs are
    runs = known - _equal_neighbours(whole)
    repeated = runs - distinct_values(whole)
    # that many draws from n equally likely values collide about runs² / 2n times
    distinct = min(runs * runs / (2 * repeated) if repeated > 0 else float("inf"), rows * runs / len(whole))
    width = _value_bytes(whole, known)
    return bool(distinct > _WORTH * rows * known / len(whole) or distinct * width > 2 * limit_bytes)


def distinct_values(column: pa.Array) -> int:
    """How many values a column has, nulls not counted. Numbers are compared by their bits, as in a dictionary."""
    width = column.type.bit_width // 8 if pa.types.is_primitive(column.type) else 0
    if width not in (1, 2, 4, 8):
        return int(pc.count_distinct(column).as_py())
    # numpy sorts some thousand numbers in a tenth of the time that Arrow takes to hash them
    bits = np.sort(column.drop_null().view(_INTEGERS[width]).to_numpy())
    return int(np.count_nonzero(bits[1:] != bits[:-1])) + (len(bits) > 0)


def _equal_neighbours(column: pa.Array) -> int:
    equal = pc.equal(column.slice(1), column.slice(0, len(column) - 1))
    return int(equal.true_count)


def _value_bytes(column: pa.Array, known: int) -> float:
    kind = column.type
    if pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
        return float(kind.bit_width / 8)
    return 4 + float(pc.sum(pc.binary_length(column)).as_py()) / known


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """Parquet paths of a column."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path


def dictionary_coded(metadata: pq.FileMetaData, groups: Sequence[int], columns: Container[str]) -> list[str]:
    """Which columns of strings some row groups of a file hold as dictionaries, nearly throughout.

    pyarrow would make a dictionary of the others by hashing each value, which takes longer than reading them.

    Args:
        metadata: the footer.
        groups: row groups.
        columns: columns to choose from; fields of ROWs are not.
    """
    found = []
    wanted = [at for at in range(metadata.num_columns) if metadata.schema.column(at).path in columns]
    for at in wanted:
        column = metadata.schema.column(at)
        if column.physical_type != "BYTE_ARRAY" or column.logical_type.type != "STRING":
            continue
        chunks = [metadata.row_group(group).column(at) for group in groups]
        # the length alone of a value that is not in the dictionary takes four bytes
        if chunks and all(c.has_dictionary_page and c.total_uncompressed_size < 4 * c.num_values for c in chunks):
            found.append(column.path)
    return found
