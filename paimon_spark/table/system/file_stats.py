"""Statistics of data files in the columns of the table as it is read, as the texts of ``files``.

Equals Java's ``SimpleStatsEvolution`` as ``FilesTable`` uses it: columns are matched by field id, a column that a file
lacks is all null, values of an older type are cast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_spark.errors import DataError
from paimon_spark.spec.binary_row import decode_rows
from paimon_spark.spec.casts import cast_array
from paimon_spark.spec.special_fields import ROW_ID, SEQUENCE_NUMBER
from paimon_spark.table.system.texts import map_texts, object_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paimon_spark.spec.data_types import DataField, DataType
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.spec.stats import SimpleStats
    from paimon_spark.table.table import FileStoreTable

_ARITY_BYTES = 4

Texts = tuple[pa.Array, pa.Array, pa.Array]
"""Null count, minimum and maximum of one column for several files, as texts."""


def value_stats_texts(table: FileStoreTable, files: ManifestColumns) -> Texts:
    """Null counts, minima and maxima of all columns of the table: ``{a=1, b=null}`` per file."""
    parts: list[Texts] = []
    order: list[int] = []
    for (schema_id, names), at in _layouts(files).items():
        then = table.schemas.get(schema_id)
        stats = [files.value_stats[i] for i in at]
        counts = pa.array(files.row_counts[np.array(at, dtype=np.int64)], pa.int64())
        columns = _columns(then, names, stats, counts, table.schema.fields)
        parts.append(tuple(map_texts([(n, t[k]) for n, t in columns.items()], len(at)) for k in range(3)))
        order += at
    if not parts:
        nothing = pa.array([], pa.string())
        return nothing, nothing, nothing
    back = pa.array(np.argsort(np.array(order, dtype=np.int64)))
    nulls, minima, maxima = (pa.concat_arrays([part[k] for part in parts]).take(back) for k in range(3))
    return nulls, minima, maxima


def _layouts(files: ManifestColumns) -> dict[tuple[int, tuple[str, ...] | None], list[int]]:
    """Positions of the files by schema and by the columns that their statistics cover."""
    groups: dict[tuple[int, tuple[str, ...] | None], list[int]] = {}
    named = zip(files.file_values("_VALUE_STATS_COLS"), files.file_values("_WRITE_COLS"), strict=True)
    for i, (schema_id, (dense, written)) in enumerate(zip(files.schema_ids.tolist(), named, strict=True)):
        names = written if dense is None else dense
        groups.setdefault((schema_id, None if names is None else tuple(names)), []).append(i)
    return groups


def _columns(
    then: TableSchema,
    names: tuple[str, ...] | None,
    stats: Sequence[SimpleStats],
    counts: pa.Array,
    wanted: Sequence[DataField],
) -> dict[str, Texts]:
    known = {field.name: field for field in (*then.fields, ROW_ID, SEQUENCE_NUMBER)}
    covered = list(then.fields) if names is None else [known[name] for name in names if name in known]
    arity = len(covered).to_bytes(_ARITY_BYTES, "big")
    usable = [
        i
        for i, each in enumerate(stats)
        if each.min_values[:_ARITY_BYTES] == arity and len(each.null_counts) == len(covered)
    ]
    location = {field.id: i for i, field in enumerate(covered)}
    there = {field.id for field in then.fields}
    unknown = pa.nulls(len(stats), pa.string())
    shown = [field for field in wanted if field.id in location] if usable else []
    texts = iter(_decoded(covered, [location[field.id] for field in shown], [stats[i] for i in usable], shown))
    found: dict[str, Texts] = {}
    for field in wanted:
        if field.id not in there:
            found[field.name] = (pc.cast(counts, pa.string()), unknown, unknown)
        elif field.id in location and usable:
            found[field.name] = _spread(next(texts), usable, len(stats))
        else:
            found[field.name] = (unknown, unknown, unknown)
    return found


def _decoded(
    covered: Sequence[DataField], at: Sequence[int], stats: Sequence[SimpleStats], targets: Sequence[DataField]
) -> Iterator[Texts]:
    """Yield the texts of the columns at positions of the statistics, each in the type of its target."""
    types = [field.type.with_nullable(True) for field in covered]
    low = decode_rows([each.min_values for each in stats], types, serialized=True, fields=at)
    high = decode_rows([each.max_values for each in stats], types, serialized=True, fields=at)
    for position, target, *bounds in zip(at, targets, low, high, strict=True):
        nulls = pa.array([each.null_counts[position] for each in stats], pa.int64())
        minimum, maximum = (_shown(bound, types[position], target.type.with_nullable(True)) for bound in bounds)
        yield pc.cast(nulls, pa.string()), minimum, maximum


def _shown(bounds: pa.Array, data_type: DataType, wanted: DataType) -> pa.Array:
    try:
        return object_texts(bounds if data_type == wanted else cast_array(bounds, data_type, wanted), wanted)
    except DataError:  # a text that is no value of the new type: nothing is known
        return pa.nulls(len(bounds), pa.string())


def _spread(texts: Texts, at: Sequence[int], count: int) -> Texts:
    """Texts of some files as those of all, the others null."""
    if len(at) == count:
        return texts
    back = np.full(count, -1, dtype=np.int64)
    back[list(at)] = np.arange(len(at))
    take = pa.array(back, mask=back < 0)
    return texts[0].take(take), texts[1].take(take), texts[2].take(take)
