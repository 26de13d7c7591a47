"""Indexes of single data files, embedded in manifests or next to the files (docs: "File index" of the specification).

A container holds any number of indexes of any number of columns (`container`). `values` makes the keys that indexes are
over from a column; `value_indexes` (``bitmap``, ``bloom-filter``) and `range_bitmap` (``range-bitmap``, ``bsi``) write
and read the four types; `answers` says which rows of a file a predicate leaves. Pure functions over bytes and Arrow
columns, vectorised over rows.
"""

from paimon_spark.spec.file_index.container import FileIndexPart, decode_head, encode_container, head_length

__all__ = ["FileIndexPart", "decode_head", "encode_container", "head_length"]
