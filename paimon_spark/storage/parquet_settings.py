"""Table options as settings of pyarrow's Parquet writer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from paimon_spark.errors import OptionError, UnsupportedError

MAX_ROW_GROUP_ROWS: Final = 1 << 20
"""Most rows of a row group, so that narrow tables still have row groups to prune and to share between tasks."""
_DEFAULT_BLOCK_BYTES: Final = 128 << 20
_CODECS: Final[Mapping[str, str]] = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "none": "none",
    "uncompressed": "none",
    "null": "none",
}


class ParquetSettings:
    """Table options as pyarrow's writer wants them."""

    def __init__(self, compression: str, zstd_level: int, options: Mapping[str, str]) -> None:
        given = {key.lower(): value.strip() for key, value in options.items() if key.lower().startswith("parquet.")}
        codec = given.get("parquet.compression", compression).lower()
        if codec not in _CODECS:
            raise UnsupportedError(
                f"Parquet files with the compression '{codec}' cannot be written. "
                f"Set 'file.compression' to one of {', '.join(sorted(_CODECS))}."
            )
        self.block_bytes = _integer(given, "parquet.block.size", _DEFAULT_BLOCK_BYTES)
        self.max_rows = min(MAX_ROW_GROUP_ROWS, _integer(given, "parquet.block.row.count.limit", MAX_ROW_GROUP_ROWS))
        dictionary = given.get("parquet.enable.dictionary")
        self.dictionary = None if dictionary is None else dictionary.lower() == "true"
        """Whether all columns get a dictionary, or none; None where each column is decided by a sample."""
        version = given.get("parquet.writer.version", "v1").lower()
        self.pyarrow: dict[str, Any] = {
            "compression": _CODECS[codec],
            "data_page_version": "2.0" if version in ("v2", "parquet_2_0") else "1.0",
            "data_page_size": _integer(given, "parquet.page.size", 1 << 20),
            "dictionary_pagesize_limit": _integer(given, "parquet.dictionary.page.size", 1 << 20),
            "write_page_index": True,
            "write_page_checksum": True,
            "store_schema": False,
            "store_decimal_as_integer": True,
        }
        if codec == "zstd":
            level = _integer(given, "parquet.compression.codec.zstd.level", zstd_level, least=-100)
            self.pyarrow["compression_level"] = level
        if _TIME_IS_ADJUSTED_BY_CHOICE:
            self.pyarrow["write_time_adjusted_to_utc"] = True


_TIME_IS_ADJUSTED_BY_CHOICE: Final = int(pa.__version__.split(".")[0]) >= 21
"""Since 21 pyarrow writes TIME as not adjusted to UTC unless told; before, always adjusted, as Java does."""


def _integer(given: Mapping[str, str], key: str, default: int, *, least: int = 1) -> int:
    text = given.get(key)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        raise OptionError(f"The option '{key}' must be a whole number, but is '{text}'.") from None
    if value < least:
        raise OptionError(f"The option '{key}' must be at least {least}, but is {value}.")
    return value
