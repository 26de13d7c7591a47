"""From a file's columns to the wanted Paimon fields, and from a library's errors to CorruptTableError."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa

from paimon_spark.errors import CorruptTableError, DataError, ExpiredFileError, PaimonError
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField, VariantType, contains_type
from paimon_spark.spec.variant_shredding import has_shredded, unshredded_inside, without_shredding
from paimon_spark.storage import arrow_layout
from paimon_spark.storage.store_errors import translated
from paimon_spark.storage.store_options import redact

T = TypeVar("T")


@contextlib.contextmanager
def corrupt_as(path: str, what: str) -> Iterator[None]:
    """Turn a library's errors about bytes into CorruptTableError; errors of the store pass."""
    try:
        yield
    except FileNotFoundError:
        raise ExpiredFileError(
            "A data file is missing. If the table is expired or compacted while it is read, "
            "keep snapshots longer (snapshot.time-retained)",
            path=redact(path),
        ) from None
    except PaimonError:
        raise
    except (pa.ArrowException, EOFError, UnicodeError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise _corrupt(path, what, error) from error
    except OSError as error:
        # pyarrow's own errors are plain OSErrors without a number; the store's have one or are subclasses.
        if type(error) is not OSError or error.errno is not None:
            raise translated(error, path) from None
        raise _corrupt(path, what, error) from error


def each_as_corrupt(items: Iterator[T], path: str, what: str) -> Iterator[T]:
    """The items of a lazy reader, its errors turned as in `corrupt_as`."""
    while True:
        with corrupt_as(path, what):
            item = next(items, None)
        if item is None:
            return
        yield item


def _corrupt(path: str, what: str, error: BaseException) -> CorruptTableError:
    reason = str(error).strip().rstrip(".") or type(error).__name__
    return CorruptTableError(f"The file is not a valid {what} file of this table: {reason[:500]}", path=redact(path))


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """How batches of a file become batches of the wanted fields.

    Attributes:
        schema: Schema of the result.
        path: The file, for messages.
        sources: Names of the file's columns that are read.
        steps: For each wanted field the file's column and its conversion; `(None, None)` for a column of nulls.
    """

    schema: pa.Schema
    path: str
    sources: list[str]
    steps: tuple[tuple[str | None, arrow_layout.Conversion | None], ...]

    @staticmethod
    def of(
        file_schema: pa.Schema, fields: Sequence[DataField], path: str, *, dictionaries: Container[str] = ()
    ) -> ColumnPlan:
        """Plan the columns.

        Raises:
            CorruptTableError: a field that is NOT NULL is missing, or a column is of another kind than its field.
        """
        schema = to_arrow_schema(fields)
        steps: list[tuple[str | None, arrow_layout.Conversion | None]] = []
        for field, wanted in zip(fields, schema, strict=True):
            at = file_schema.get_field_index(field.name)
            if at < 0:
                if not wanted.nullable:
                    raise CorruptTableError(f"The file lacks the NOT NULL column '{field.name}'", path=redact(path))
                steps.append((None, None))
                continue
            found = file_schema.field(at).type
            if field.name in dictionaries:
                steps.append((field.name, None))
                schema = schema.set(len(steps) - 1, wanted.with_type(found))
                continue
            plain: arrow_layout.Conversion | None = None
            if contains_type(field.type, VariantType) and has_shredded(field.type, found):
                plain = partial(unshredded_inside, field.type)
                found = without_shredding(field.type, found)
            try:
                steps.append((field.name, _both(plain, arrow_layout.conversion(found, wanted.type))))
            except TypeError:
                raise CorruptTableError(
                    f"Column '{field.name}' is {field.type.sql()} in the table but {found} in the file",
                    path=redact(path),
                ) from None
        return ColumnPlan(schema, path, [name for name, _ in steps if name is not None], tuple(steps))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One batch of the result."""
        columns = [
            arrow_layout.null_column(field.type, batch.num_rows)
            if name is None
            else batch.column(name)
            if convert is None
            else self._converted(name, convert, batch)
            for (name, convert), field in zip(self.steps, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _converted(self, name: str, convert: arrow_layout.Conversion, batch: pa.RecordBatch) -> pa.Array:
        try:
            return convert(batch.column(name))
        except pa.ArrowInvalid as error:
            raise CorruptTableError(f"Column '{name}': {error}", path=redact(self.path)) from error
        except DataError as error:
            raise DataError(f"Column '{name}': {error} (file: {redact(self.path)})") from error

    def rows_without_columns(self, rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Batches where the file has none of the wanted columns: nulls, or only a number of rows."""
        while rows > 0:
            count = min(rows, batch_rows)
            counter = pa.RecordBatch.from_arrays([pa.nulls(count)], names=["_"])
            yield self.apply(counter) if self.steps else counter.select([])
            rows -= count


def _both(
    first: arrow_layout.Conversion | None, second: arrow_layout.Conversion | None
) -> arrow_layout.Conversion | None:
    """Return one conversion after the other."""
    if first is None or second is None:
        return first or second
    return lambda array: second(first(array))
