"""Which files the indexes of data files rule out, and which rows of a file they leave.

Equals Java's ``AppendOnlyFileStoreScan.testFileIndex`` and ``FileIndexEvaluator``, and goes further: indexes in own
files are read while the read is planned too, so that every reader is spared the files, Spark's own as well. What
an index says about rows is asked again where the file is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from paimon_spark.errors import CorruptTableError
from paimon_spark.read.field_mapping import FieldMapping
from paimon_spark.spec.data_types import MapType
from paimon_spark.spec.file_index.answers import Answer, FileIndexes, may_match, tested
from paimon_spark.spec.file_index.container import IndexDamageError
from paimon_spark.spec.file_index.writer import index_settings
from paimon_spark.spec.predicate import Predicate, fields
from paimon_spark.storage.store_options import redact
from paimon_spark.table.data_layout import DataLayout
from paimon_spark.table.file_indexes import IndexLocation, index_location, opened

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField
    from paimon_spark.spec.manifest_columns import ManifestColumns
    from paimon_spark.spec.schema import TableSchema
    from paimon_spark.storage.file_io import FileIO
    from paimon_spark.table.table import FileStoreTable

Mask = npt.NDArray[np.bool_]
_Question = tuple[int, "Sequence[DataField]", Predicate]
"""A file by its number, its columns, a predicate over them."""

WITH_ROWS = "index leaves rows"
"""Name of the mask of files whose index leaves some rows out, or was not looked at yet."""

_MOST_FILES = 10_000
"""Index files that a plan reads at most; tasks read the others."""


def answer_of(
    file_io: FileIO,
    position: IndexLocation | None,
    columns: Sequence[DataField],
    predicate: Predicate | None,
    row_count: int,
) -> Answer:
    """Return what the indexes of one file say.

    Args:
        file_io: the store.
        position: of the indexes; None where there are none.
        columns: of the file, as its schema has them.
        predicate: over these columns; None is no condition.
        row_count: of the file.

    Raises:
        ExpiredFileError: the index file is missing.
        CorruptTableError: an index is damaged.
    """
    if position is None or predicate is None:
        return True
    types = {field.name: field.type for field in columns}
    for name, leaf in tested(predicate).items():
        of_map = types.get(leaf.field)
        if leaf.key is not None and isinstance(of_map, MapType):
            types[name] = of_map.value
    with opened(file_io, position) as container:
        wanted = tested(predicate)
        parts = [part for part in container.parts if part.column in wanted]
        if not parts:
            return True
        try:
            return FileIndexes(parts, container.read, types, row_count).answer(predicate)
        except IndexDamageError as error:
            shown = redact(position.path)
            raise CorruptTableError(f"The file index of {shown} cannot be read: {error}.", path=shown) from error


def index_masks(
    table: FileStoreTable, files: ManifestColumns, predicate: Predicate, candidates: Mask
) -> tuple[Mask, Mask]:
    """Return which files may hold matching rows, and of which the indexes leave only some rows. Runs on the driver.

    Args:
        table: with the schema of the read.
        files: of the snapshot.
        predicate: over the table's columns.
        candidates: the files that are looked at; the others are kept.

    Raises:
        CorruptTableError: an index is missing or damaged.
    """
    keep, some = np.ones(len(files), bool), np.zeros(len(files), bool)
    if not table.options.value("file-index.read.enabled") or not candidates.any():
        return keep, some
    embedded, extra = files.file_values("_EMBEDDED_FILE_INDEX"), files.file_values("_EXTRA_FILES")
    indexed = [i for i in np.flatnonzero(candidates).tolist() if embedded[i] is not None or extra[i]]
    if not indexed:
        return keep, some
    part = files.take(indexed)
    paths = DataLayout.of(table.schema).data_file_paths(table.path, part)
    positions = [index_location(embedded[i], extra[i], path) for i, path in zip(indexed, paths, strict=True)]
    counts = part.row_counts.tolist()
    questions = list(_questions(table, part.schema_ids.tolist(), positions, predicate))

    def ask(question: _Question) -> Answer:
        at, columns, of_file = question
        return answer_of(table.file_io, positions[at], columns, of_file, counts[at])

    later = [at for at, _, _ in questions if positions[at].embedded is None][_MOST_FILES:]  # type: ignore[union-attr]
    some[[indexed[at] for at in later]] = True
    asked = [question for question in questions if question[0] not in set(later)]
    with ThreadPoolExecutor(min(table.file_io.threads, max(1, len(asked)))) as pool:
        for (at, _, _), answer in zip(asked, pool.map(ask, asked), strict=True):
            keep[indexed[at]] = may_match(answer)
            some[indexed[at]] = not isinstance(answer, bool)
    return keep, some


def _questions(
    table: FileStoreTable, schema_ids: Sequence[int], positions: Sequence[IndexLocation | None], predicate: Predicate
) -> Iterator[_Question]:
    """Yield what is asked of which file: of those that may have an index of a column of the predicate."""
    groups: dict[int, list[int]] = {}
    for at, schema_id in enumerate(schema_ids):
        if positions[at] is not None:
            groups.setdefault(schema_id, []).append(at)
    partition_keys = set(table.schema.partition_keys)
    wanted = [table.schema.field(name) for name in sorted(fields(predicate) - partition_keys)]
    for schema_id, group in groups.items():
        then = table.schemas.get(schema_id)
        mapping = FieldMapping.of(then.fields, wanted, {})
        of_file = mapping.file_predicate(predicate)
        if of_file is None:
            continue
        known = _indexed_columns(table, then, mapping)
        separate = [at for at in group if positions[at].embedded is None]  # type: ignore[union-attr]
        if separate and not known & fields(of_file):
            position = positions[separate[-1]]
            assert position is not None
            with opened(table.file_io, position) as container:  # settings of a single write are in no schema
                names = {part.column for part in container.parts}
                known = names | {name.partition("[")[0] for name in names}  # of a key of a map ``column[key]``
        skipped = set() if known & fields(of_file) else set(separate)
        for at in group:
            if at not in skipped:
                yield at, then.fields, of_file


def _indexed_columns(table: FileStoreTable, then: TableSchema, mapping: FieldMapping) -> set[str]:
    """The columns of a file that options give an index: those of its schema, and those of the table now."""
    own = {setting.column for setting in index_settings(then.options)}
    now = {setting.column for setting in index_settings(table.schema.options)}
    return own | {each.source.name for each in mapping.columns if each.source is not None and each.target.name in now}
