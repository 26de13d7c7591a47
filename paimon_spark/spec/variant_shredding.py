"""VARIANT columns whose values lie in typed columns of a Parquet file, put together again. No Python loop over rows.

Equals Java's ``ShreddingUtils.rebuild`` and how Parquet says shredded variants are read. The
metadata of a value stays as the file has it; a container's fields come in the order of their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError
from paimon_spark.spec.arrow_types import VARIANT_STRUCT
from paimon_spark.spec.variant_values import Ragged, constant, missing, scalar_values

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_NULL: Final = 0
_OBJECT: Final = 2
_ARRAY: Final = 3
_NO_NAMES: Final = b"\x01\x00\x00"
"""Metadata without names."""
_VALUE, _TYPED, _METADATA = "value", "typed_value", "metadata"


def is_shredded(column: pa.DataType) -> bool:
    """Whether a column of a file holds shredded variants: with typed values beside the binary ones."""
    return bool(
        pa.types.is_struct(column) and column.get_field_index(_TYPED) >= 0 and column.get_field_index(_METADATA) >= 0
    )


def unshredded(array: pa.Array, *, in_part: bool = False) -> pa.Array:
    """Return the values of a shredded column as VARIANT has them: binary values with their metadata.

    Args:
        array: a struct of ``metadata``, ``value`` and ``typed_value``.
        in_part: typed values may have been left out (see `variant_touched`): a value of which nothing is there is a
            VARIANT null.

    Raises:
        DataError: a value is missing, or a typed value has no name in its metadata.
    """
    valid = _flags(array.is_valid())
    names = _Names.of(_child(array, _METADATA))
    values = _rebuilt(array, names, np.arange(len(array)))
    if in_part:
        values = constant(_NULL, ~values.present).replaced(values)
    elif not (values.present | ~valid).all():
        raise DataError("a shredded VARIANT has neither a value nor a typed one")
    binary = values.to_arrow(valid)
    metadata = _child(array, _METADATA).cast(pa.binary())
    by_name = {_VALUE: binary, _METADATA: metadata}
    mask = None if valid.all() else pa.array(~valid)
    children = [pc.fill_null(by_name[field.name], b"") for field in VARIANT_STRUCT]
    return pa.StructArray.from_arrays(children, fields=list(VARIANT_STRUCT), mask=mask)


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of fields that the metadata of each row knows."""

    of_row: Longs
    """For each row its metadata, by number."""
    starts: Longs
    """For each metadata the position of its first name in `codes`."""
    codes: Longs
    """For each name of each metadata its number in `names`."""
    owners: Longs
    """For each name its metadata."""
    names: list[str]
    ranks: Longs
    """For each name its place in the order of names."""

    @classmethod
    def of(cls, metadata: pa.Array) -> _Names:
        encoded = pc.dictionary_encode(metadata.fill_null(_NO_NAMES))
        each = Ragged.of(encoded.dictionary)
        head = each.number(np.zeros(len(each), np.int64), np.ones(len(each), np.int64))
        width = (head >> 6) + 1
        count = each.number(np.ones(len(each), np.int64), width)
        owners = np.repeat(np.arange(len(each)), count)
        place = _within(count)
        at = (1 + width)[owners] + place * width[owners]
        start = each.number(at, width[owners], owners)
        end = each.number(at + width[owners], width[owners], owners)
        texts = (1 + width + (count + 1) * width)[owners]
        found = each.parts(owners, texts + start, end - start).to_arrow(None)
        coded = pc.dictionary_encode(found.cast(pa.string()))
        names = coded.dictionary.to_pylist()
        order = sorted(range(len(names)), key=lambda i: names[i].encode("utf-16-be"))
        ranks = np.empty(len(names), np.int64)
        ranks[order] = np.arange(len(names))
        starts = np.cumsum(count) - count
        return cls(_longs(encoded.indices), starts, _longs(coded.indices), owners, names, ranks)

    def ids(self, name: str, rows: Longs) -> tuple[int, Longs]:
        """The number of a name, and its id in the metadata of some rows; -1 where the metadata lacks it."""
        if name not in self.names:
            return -1, np.full(len(rows), -1, np.int64)
        code = self.names.index(name)
        hits = np.flatnonzero(self.codes == code)
        by_metadata = np.full(len(self.starts), -1, np.int64)
        by_metadata[self.owners[hits]] = hits - self.starts[self.owners[hits]]
        return code, by_metadata[self.of_row[rows]]

    def codes_of(self, ids: Longs, rows: Longs) -> Longs:
        """The numbers of the names with some ids in the metadata of some rows."""
        at = self.starts[self.of_row[rows]] + ids
        if len(at) and (int(at.max()) >= len(self.codes) or (self.owners[at] != self.of_row[rows]).any()):
            raise DataError("a VARIANT names a field that its metadata does not know")
        found: Longs = self.codes[at]
        return found


def _rebuilt(group: pa.StructArray, names: _Names, rows: Longs) -> Ragged:
    """The values of a group of ``value`` and ``typed_value``; those that have neither are not present.

    Args:
        group: one for each row of the result.
        names: of all rows of the column.
        rows: for each row of the group the row of the column.
    """
    plain = Ragged.of(_child(group, _VALUE)) if group.type.get_field_index(_VALUE) >= 0 else missing(len(group))
    if group.type.get_field_index(_TYPED) < 0:
        return plain
    typed = _child(group, _TYPED)
    kind = typed.type
    if pa.types.is_struct(kind):
        return plain.replaced(_objects(typed, plain, names, rows))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return plain.replaced(_arrays(typed, names, rows))
    return plain.replaced(scalar_values(typed))


def _arrays(typed: pa.Array, names: _Names, rows: Longs) -> Ragged:
    valid = _flags(typed.is_valid())
    counts = _longs(pc.fill_null(pc.list_value_length(typed), 0))
    elements = _rebuilt(typed.flatten(), names, np.repeat(rows, counts))
    if not elements.present.all():
        raise DataError("an element of a shredded VARIANT has neither a value nor a typed one")
    owners = np.repeat(np.arange(len(typed)), counts)
    return _containers(_ARRAY, valid, owners, None, elements)


def _objects(typed: pa.StructArray, plain: Ragged, names: _Names, rows: Longs) -> Ragged:
    valid = _flags(typed.is_valid())
    owners, ids, codes, parts = [], [], [], []
    for field in typed.type:
        values = _rebuilt(_child(typed, field.name), names, rows)
        code, known = names.ids(field.name, rows)
        there = np.flatnonzero(values.present & valid)
        if (known[there] < 0).any():
            raise DataError(f"a shredded VARIANT has the field '{field.name}', which its metadata does not know")
        owners.append(there)
        ids.append(known[there])
        codes.append(np.full(len(there), code, np.int64))
        parts.append(values.take(there))
    left = np.flatnonzero(valid & plain.present)
    if len(left):
        row, field_ids, values = _fields_of(plain.take(left))
        owners.append(left[row])
        ids.append(field_ids)
        codes.append(names.codes_of(field_ids, rows[left[row]]))
        parts.append(values)
    every = [np.concatenate([np.empty(0, np.int64), *part]) for part in (owners, ids, codes)]
    order = np.lexsort((names.ranks[every[2]] if len(every[2]) else every[2], every[0]))
    if len(order) > 1:
        same = (np.diff(every[0][order]) == 0) & (np.diff(every[2][order]) == 0)
        if same.any():
            raise DataError("a shredded VARIANT has a field twice")
    merged = Ragged.concat(parts).take(order)
    return _containers(_OBJECT, valid, every[0][order], every[1][order], merged)


def _fields_of(objects: Ragged) -> tuple[Longs, Longs, Ragged]:
    """The fields of binary objects: the object's position, the field's id and value; fields of one object together."""
    count = len(objects)
    zero = np.zeros(count, np.int64)
    head = objects.number(zero, zero + 1)
    if (head & 3 != _OBJECT).any():
        raise DataError("the rest of a shredded VARIANT is no object")
    info = head >> 2
    offset_size, id_size, large = (info & 3) + 1, ((info >> 2) & 3) + 1, (info >> 4) & 1
    size_bytes = np.where(large == 1, 4, 1)
    fields = objects.number(zero + 1, size_bytes)
    row, place = np.repeat(np.arange(count), fields), _within(fields)
    first = (1 + size_bytes)[row]
    ids = objects.number(first + place * id_size[row], id_size[row], row)
    offsets_at = first + (fields * id_size)[row]
    offsets = objects.number(offsets_at + place * offset_size[row], offset_size[row], row)
    totals = objects.number(1 + size_bytes + fields * id_size + fields * offset_size, offset_size)
    order = np.lexsort((offsets, row))
    ends = np.empty(len(row), np.int64)
    following = np.concatenate([offsets[order][1:], [0]]) if len(row) else offsets
    last = np.concatenate([row[order][1:] != row[order][:-1], [True]]) if len(row) else np.empty(0, bool)
    ends[order] = np.where(last, totals[row[order]], following)
    data_at = offsets_at + ((fields + 1) * offset_size)[row]
    return row, ids, objects.parts(row, data_at + offsets, ends - offsets)


def _containers(kind: int, valid: Bools, owners: Longs, ids: Longs | None, values: Ragged) -> Ragged:
    """Arrays or objects of the values that belong together.

    Args:
        kind: of container.
        valid: for each row whether it has one.
        owners: the row of each value, ascending.
        ids: the id of each value's name; None in arrays.
        values: in their order.
    """
    rows = len(valid)
    counts = np.bincount(owners, minlength=rows).astype(np.int64)
    data = np.bincount(owners, weights=values.lengths, minlength=rows).astype(np.int64)
    large = counts > 255
    size_bytes = np.where(large, 4, 1)
    offset_size = _bytes_for(data)
    most = np.zeros(rows, np.int64)
    if ids is not None:
        np.maximum.at(most, owners, ids)
    id_size = _bytes_for(most) if ids is not None else np.zeros(rows, np.int64)
    heads = 1 + size_bytes + counts * id_size + (counts + 1) * offset_size
    lengths = np.where(valid, heads + data, 0)
    starts = np.cumsum(lengths) - lengths
    out = np.zeros(int(lengths.sum()), np.uint8)
    own = np.flatnonzero(valid)
    if kind == _OBJECT:
        head = (large.astype(np.int64) << 6) | ((id_size - 1) << 4) | ((offset_size - 1) << 2) | _OBJECT
    else:
        head = (large.astype(np.int64) << 4) | ((offset_size - 1) << 2) | _ARRAY
    _put(out, starts[own], head[own], np.ones(len(own), np.int64))
    _put(out, starts[own] + 1, counts[own], size_bytes[own])
    place = _within(counts)
    firsts = starts + 1 + size_bytes
    if ids is not None:
        _put(out, firsts[owners] + place * id_size[owners], ids, id_size[owners])
    offsets_at = firsts + counts * id_size
    ends = np.cumsum(values.lengths)
    before = np.cumsum(data) - data
    _put(
        out,
        offsets_at[owners] + place * offset_size[owners],
        ends - values.lengths - before[owners],
        offset_size[owners],
    )
    _put(out, (offsets_at + counts * offset_size)[own], data[own], offset_size[own])
    flat = values.flat()
    out[np.repeat((starts + heads - before)[owners], values.lengths) + np.arange(len(flat))] = flat
    return Ragged(out, starts, lengths, valid)


def _put(out: npt.NDArray[np.uint8], at: Longs, numbers: Longs, widths: Longs) -> None:
    """Write numbers of some bytes, the lowest first."""
    for byte in range(4):
        some = widths > byte
        out[at[some] + byte] = (numbers[some] >> (8 * byte)) & 255


def _bytes_for(numbers: Longs) -> Longs:
    return 1 + (numbers > 0xFF).astype(np.int64) + (numbers > 0xFFFF) + (numbers > 0xFFFFFF)


def _within(counts: Longs) -> Longs:
    """0, 1, 2, … for each group of so many."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)


def _child(array: pa.StructArray, name: str) -> pa.Array:
    """A field, null where the struct is."""
    return pc.struct_field(array, name)


def _longs(array: pa.Array) -> Longs:
    return np.asarray(array.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)


def _flags(array: pa.Array) -> Bools:
    return np.asarray(array.to_numpy(zero_copy_only=False), bool)
