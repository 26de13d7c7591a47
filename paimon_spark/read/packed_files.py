"""Files of splits as columns: many of a plan in the driver's memory, and those of one split on their way to a task.

A plan of a million files that held an object for each of their values would take half a gigabyte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

from paimon_spark.spec.manifest_columns import Constant

_File = TypeVar("_File", bound=tuple[Any, ...])
"""A file as a named tuple: `split.SplitFile`."""
_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_UUID_BYTES = 16
_LEAST, _GREATEST = -(2**63), 2**63 - 1
_BETWEEN = "/"
"""Stands between names of files: none has it."""

_Column = Constant | tuple[Any, ...] | npt.NDArray[Any]
WireColumn = tuple[Any, ...] | list[Any]
"""A tuple of the values, of one if they are equal; a list of the parts of names or keys."""


class FileBlock(Generic[_File]):
    """The files of neighbouring splits, column by column; they are made again while somebody looks at them."""

    __slots__ = ("_columns", "_count", "_make")
    _shown: tuple[FileBlock[Any], list[Any]] | None = None
    """The block that was looked at last: splits are looked at in their order."""

    def __init__(self, files: Sequence[_File]) -> None:
        self._make: Any = type(files[0])._make  # type: ignore[attr-defined]
        self._count = len(files)
        self._columns = tuple(map(_column, zip(*files, strict=True)))

    def files(self) -> list[_File]:
        """Return all files of the block."""
        shown = FileBlock._shown
        if shown is None or shown[0] is not self:
            columns = (_values(column, self._count) for column in self._columns)
            shown = FileBlock._shown = self, list(map(self._make, zip(*columns, strict=True)))
        return shown[1]


class PackedFiles(Sequence[_File]):
    """The files of one split, which lie in a block; equal to a tuple of the same files."""

    __slots__ = ("_block", "_count", "_start")

    def __init__(self, block: FileBlock[_File], start: int, count: int) -> None:
        self._block, self._start, self._count = block, start, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> _File: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[_File, ...]: ...
    def __getitem__(self, index: int | slice) -> _File | tuple[_File, ...]:
        return self._tuple()[index]

    def __iter__(self) -> Iterator[_File]:
        return iter(self._tuple())

    def __eq__(self, other: object) -> bool:
        return self._tuple() == (other._tuple() if isinstance(other, PackedFiles) else other)

    def __hash__(self) -> int:
        return hash(self._tuple())

    def __repr__(self) -> str:
        return repr(self._tuple())

    def _tuple(self) -> tuple[_File, ...]:
        return tuple(self._block.files()[self._start : self._start + self._count])


def _column(values: tuple[Any, ...]) -> _Column:
    if values.count(values[0]) == len(values):
        return Constant(values[0])
    fits = all(type(value) is int and _LEAST <= value <= _GREATEST for value in values)
    return np.array(values, dtype=np.int64) if fits else values


def _values(column: _Column, count: int) -> Sequence[Any] | repeat[Any]:
    if isinstance(column, Constant):
        return [column.value] * count
    return column.tolist() if isinstance(column, np.ndarray) else column


def to_wire(files: Sequence[_File]) -> tuple[int, tuple[WireColumn, ...]]:
    """Return what a split pickles of its files: their number and columns, with names and keys made short."""
    columns = zip(*files, strict=True)
    return len(files), tuple(map(_to_wire, columns))


def from_wire(count: int, columns: Sequence[WireColumn]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of each file."""
    return zip(*(_from_wire(column, count) for column in columns), strict=True)


def _to_wire(values: tuple[Any, ...]) -> WireColumn:
    first = values[0]
    if len(values) > 1 and values.count(first) == len(values):
        return values[:1]
    if isinstance(first, str):
        return _short_names(values) or _short(values)
    if isinstance(first, bytes) and first:
        return _short_keys(values) or _short(values)
    return _short(values)


def _short(values: tuple[Any, ...]) -> WireColumn:
    return values[:1] if values.count(values[0]) == len(values) else values


def _from_wire(column: WireColumn, count: int) -> Sequence[Any]:
    if isinstance(column, list):
        return _long_names(*column) if isinstance(column[0], str) else _long_keys(*column)
    return column * count if len(column) == 1 else column


def _short_names(names: Sequence[str]) -> list[Any] | None:
    """The parts of names with a UUID each: what comes before it, the UUIDs, what comes between, the common end."""
    found = _UUID.search(names[0])
    if found is None:
        return None
    start, end = found.span()
    before = names[0][:start]
    if not all(name.startswith(before) and _UUID.fullmatch(name, start, end) for name in names):
        return None
    ids = bytes.fromhex("".join([name[start:end] for name in names]).replace("-", ""))
    tails = [name[end:] for name in names]
    if any(_BETWEEN in tail for tail in tails):  # a directory
        return None
    backwards = [tail[::-1] for tail in tails]
    after = tails[0][len(tails[0]) - _common(min(backwards), max(backwards)) :]
    if ids == ids[:_UUID_BYTES] * len(names):
        ids = ids[:_UUID_BYTES]
    return [before, ids, _BETWEEN.join([tail[: len(tail) - len(after)] for tail in tails]), after]


def _long_names(before: str, ids: bytes, tails: str, after: str) -> list[str]:
    digits, names = ids.hex(), tails.split(_BETWEEN)
    texts = [
        f"{before}{digits[i : i + 8]}-{digits[i + 8 : i + 12]}-{digits[i + 12 : i + 16]}-{digits[i + 16 : i + 20]}-"
        f"{digits[i + 20 : i + 32]}"
        for i in range(0, len(digits), 2 * _UUID_BYTES)
    ]
    if len(texts) == 1:
        texts *= len(names)
    return [f"{text}{tail}{after}" for text, tail in zip(texts, names, strict=True)]


def _common(least: str | bytes, greatest: str | bytes) -> int:
    """How many characters all values between two begin with."""
    unequal = (i for i, (left, right) in enumerate(zip(least, greatest, strict=False)) if left != right)
    return next(unequal, min(len(least), len(greatest)))


def _short_keys(keys: Sequence[bytes]) -> list[Any] | None:
    """The parts of keys of one length: their common beginning, the rest of all of them, its length in each."""
    before = keys[0][: _common(min(keys), max(keys))]
    size = len(keys[0]) - len(before)
    if not size or not all(len(key) == len(keys[0]) for key in keys):
        return None
    return [before, b"".join([key[len(before) :] for key in keys]), size]


def _long_keys(before: bytes, rest: bytes, size: int) -> list[bytes]:
    return [before + rest[i : i + size] for i in range(0, len(rest), size)]
