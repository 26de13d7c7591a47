"""Where new data files go that do not lie below their table (option ``data-file.external-paths``).

Equals Java's ``ExternalPathProvider`` and ``AbstractFileStore.createExternalPaths``: the directories below an external
path are those below the table. No file is opened.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.spec.file_locations import (
    EXTERNAL,
    data_directory,
    external_roots,
    is_root,
    plain_path,
    scheme_of_root,
)
from paimon_spark.storage.store_options import redact
from paimon_spark.table.data_layout import store_of

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema

_STRATEGY: Final = "data-file.external-paths.strategy"
_SPECIFIC: Final = "data-file.external-paths.specific-fs"
_WEIGHTS: Final = "data-file.external-paths.weights"
_ENTROPY: Final = "entropy-inject"
_WEIGHTED: Final = "weight-robin"
_MASK: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class ExternalPaths:
    """The external paths of a table, and how a file finds its own. Picklable."""

    roots: tuple[str, ...]
    strategy: str
    weights: tuple[int, ...]
    """Of each root, for the strategy `weight-robin`; empty without."""
    depth: int
    """How many directories there are between a table and its files."""

    @classmethod
    def of(cls, schema: TableSchema) -> ExternalPaths | None:
        """Read the options of a table; None where its files lie below it.

        Raises:
            OptionError: an option is missing or wrong.
        """
        options = schema.core_options
        strategy = str(options.value(_STRATEGY)).lower()
        roots = external_roots(schema.options)
        if not roots or strategy == "none":
            return None
        for root in roots:
            if scheme_of_root(root) is None:
                raise OptionError(
                    f"Option '{EXTERNAL}' names {root}: scheme should not be null. Write file:/directory."
                )
            if is_root(root):
                raise OptionError(f"Option '{EXTERNAL}' names {root}, which is a whole bucket: name a directory in it.")
        weights = _weights(options.value(_WEIGHTS), len(roots)) if strategy == _WEIGHTED and len(roots) > 1 else ()
        if strategy == "specific-fs":
            wanted = options.value(_SPECIFIC)
            if wanted is None:
                raise OptionError(f"Option '{_STRATEGY}' = 'specific-fs' needs '{_SPECIFIC}', the scheme of a path.")
            roots = tuple(root for root in roots if scheme_of_root(root) == str(wanted).lower())
            if not roots:
                raise OptionError(f"External paths should not be empty: none in '{EXTERNAL}' has the scheme {wanted}.")
        inside = data_directory(schema.options)
        depth = len(schema.partition_keys) + 1 + (len(inside.split("/")) if inside else 0)
        return cls(tuple(map(_as_java_writes, roots)), strategy, weights, depth)

    def check_store(self, path: str) -> None:
        """Refuse paths in another store than the table's.

        Args:
            path: of the table, or below it.

        Raises:
            UnsupportedError: names the external path.
        """
        other = next((root for root in self.roots if store_of(root) != store_of(path)), None)
        if other is not None:
            raise UnsupportedError(
                f"Option '{EXTERNAL}' names {redact(other)}, which is in another store than the table {redact(path)}: "
                "that is not supported. Write this table with another Paimon engine."
            )

    def directories(self, bucket_directory: str) -> ExternalDirectories:
        """Return the directories of the files of one writer.

        Args:
            bucket_directory: of the bucket, below the table.

        Raises:
            UnsupportedError: as of `check_store`.
        """
        self.check_store(bucket_directory)
        return ExternalDirectories(self, "/".join(bucket_directory.rsplit("/", self.depth)[1:]))


class ExternalDirectories:
    """Gives each new file of one writer a directory."""

    def __init__(self, locations: ExternalPaths, relative: str) -> None:
        self._locations = locations
        self._relative = relative
        entropy = locations.strategy == _ENTROPY
        self._turns = _turns(len(locations.roots), 0 if entropy else random.randrange(len(locations.roots)))

    def of(self, name: str) -> str:
        """Return the directory of a new file."""
        locations = self._locations
        if locations.weights:
            ends = list(accumulate(locations.weights))
            root = locations.roots[bisect_right(ends, random.random() * ends[-1])]
        else:
            root = locations.roots[next(self._turns)]
        parts = (root, self._relative, *(entropy_directories(name) if locations.strategy == _ENTROPY else ()))
        return "/".join(parts)


def _turns(count: int, start: int) -> Iterator[int]:
    while True:
        start = (start + 1) % count
        yield start


def _weights(text: object, count: int) -> tuple[int, ...]:
    """The weights; empty without the option, as Java takes the paths by turns then."""
    if text is None:
        return ()
    try:
        weights = tuple(int(part) for part in str(text).split(","))
    except ValueError:
        raise OptionError(f"Option '{_WEIGHTS}' = {text!r} is no list of whole numbers.") from None
    if len(weights) != count or min(weights) <= 0:
        raise OptionError(
            f"The number of external paths and weights should be the same, and each weight above 0: '{_WEIGHTS}' has "
            f"{text!r} for {count} paths."
        )
    return weights


def _as_java_writes(root: str) -> str:
    """A local path as ``file:/a``, however many slashes the option has."""
    return f"file:{plain_path(root)}" if root.startswith("file:") else root


def entropy_directories(name: str) -> tuple[str, ...]:
    """Directories by the hash of a file's name (Java: ``EntropyInjectExternalPathProvider``)."""
    bits = f"{_murmur3(name.encode()) | 1 << 31:032b}"[-20:]
    return bits[:4], bits[4:8], bits[8:12], bits[12:]


def _murmur3(data: bytes) -> int:
    """MurmurHash3 of 32 bits with seed 0."""
    value = 0
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        value ^= _mixed(int.from_bytes(data[start : start + 4], "little"))
        value = (_rotated(value, 13) * 5 + 0xE6546B64) & _MASK
    if whole < len(data):
        value ^= _mixed(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        value = ((value ^ value >> shift) * factor) & _MASK
    return value ^ value >> 16


def _mixed(word: int) -> int:
    return (_rotated((word * 0xCC9E2D51) & _MASK, 15) * 0x1B873593) & _MASK


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _MASK
