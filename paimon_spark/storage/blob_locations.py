"""Where the values of a blob file lie, as descriptors."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_spark.spec.data_types import BlobType, DataField
from paimon_spark.storage.blob_descriptor import Longs, descriptor, descriptor_array
from paimon_spark.storage.blob_format import AROUND, HEAD, BlobReader


def descriptors(reader: BlobReader, rows: Longs, field: DataField) -> pa.Array:
    """The descriptors of the values of some rows of a blob file; null where they are null.

    Args:
        reader: of the file.
        rows: positions in the file.
        field: the column; in an array or a map each element has its descriptor.
    """
    if not isinstance(field.type, BlobType):
        offsets = reader.offsets[rows].tolist()
        records = [reader.record(row) for row in rows.tolist()]
        return reader.collections(
            records, field, lambda at, span: descriptor(reader.path, offsets[at] + HEAD + span[0], span[1])
        )
    nulls = reader.lengths[rows] < 0
    found = descriptor_array(reader.path, reader.offsets[rows] + HEAD, reader.lengths[rows] - AROUND)
    return found.take(pa.array(np.arange(len(rows)), mask=nulls)) if nulls.any() else found
