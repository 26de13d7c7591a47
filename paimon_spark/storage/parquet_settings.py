"""Table options as settings of pyarrow's Parquet writer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.options import CoreOptions

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
        settings = CoreOptions(options)
        codec = (settings.value("parquet.compression") or compression).strip().lower()
        if codec not in _CODECS:
            raise UnsupportedError(
                f"Parquet files with the compression '{codec}' cannot be written. "
                f"Set 'file.compression' to one of {', '.join(sorted(_CODECS))}."
            )
        block_bytes = settings.value("file.block-size") or _DEFAULT_BLOCK_BYTES
        self.block_bytes = _at_least(settings, "parquet.block.size", 1) or block_bytes
        limit = _at_least(settings, "parquet.block.row.count.limit", 1)
        self.max_rows = min(MAX_ROW_GROUP_ROWS, limit or MAX_ROW_GROUP_ROWS)
        self.dictionary: bool | None = settings.value("parquet.enable.dictionary")
        """Whether all columns get a dictionary, or none; None where each column is decided by a sample."""
        version = settings.value("parquet.writer.version").strip().lower()
        self.pyarrow: dict[str, Any] = {
            "compression": _CODECS[codec],
            "data_page_version": "2.0" if version in ("v2", "parquet_2_0") else "1.0",
            "data_page_size": _at_least(settings, "parquet.page.size", 1),
            "dictionary_pagesize_limit": _at_least(settings, "parquet.dictionary.page.size", 1),
            "write_page_index": True,
            "write_page_checksum": True,
            "store_schema": False,
            "store_decimal_as_integer": True,
        }
        if codec == "zstd":
            level = _at_least(settings, "parquet.compression.codec.zstd.level", -100)
            self.pyarrow["compression_level"] = zstd_level if level is None else level
        if _TIME_IS_ADJUSTED_BY_CHOICE:
            self.pyarrow["write_time_adjusted_to_utc"] = True


_TIME_IS_ADJUSTED_BY_CHOICE: Final = int(pa.__version__.split(".")[0]) >= 21
"""Since 21 pyarrow writes TIME as not adjusted to UTC unless told; before, always adjusted, as Java does."""


def _at_least(settings: CoreOptions, key: str, least: int) -> int | None:
    value: int | None = settings.value(key)
    if value is not None and value < least:
        raise OptionError(f"The option '{key}' must be at least {least}, but is {value}.")
    return value
