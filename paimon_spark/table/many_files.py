"""Reading many small files of one table: several at once from a remote store, and decoded together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from paimon_spark.storage.file_io import FileIO

_Decoded = TypeVar("_Decoded")


def read_ahead(file_io: FileIO, paths: Iterator[str]) -> Iterator[tuple[str, bytes | None]]:
    """Yield each path with the file's bytes, None for missing files; several requests run at once on a remote store."""

    def if_there(path: str) -> bytes | None:
        try:
            return file_io.read_bytes(path)
        except FileNotFoundError:
            return None

    if file_io.threads == 1:
        yield from ((path, if_there(path)) for path in paths)
        return
    with ThreadPoolExecutor(file_io.threads) as pool:
        while some := list(islice(paths, file_io.threads)):
            yield from zip(some, pool.map(if_there, some), strict=True)


def decode_some(
    files: Sequence[tuple[str, bytes | None]], decode: Callable[[Sequence[tuple[str, bytes]]], Sequence[_Decoded]]
) -> Iterator[_Decoded | None]:
    """Decode the files that are there together; None for each that is missing."""
    decoded = iter(decode([(path, data) for path, data in files if data is not None]))
    for _, data in files:
        yield None if data is None else next(decoded)
