"""Every exception of paimon_spark: one tree, all picklable, all with a message that says what to do.

Spark passes only the text of a Python error on to the user, so the message is the product: what was wrong with
which value and which path, and what to do about it. Where Java has a message people search for, its key words are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

_T = TypeVar("_T")


class PaimonError(Exception):
    """Root of all errors raised by paimon_spark."""


class TableNotFoundError(PaimonError):
    """There is no Paimon table (no schema file) at the given path."""


class OptionError(PaimonError, ValueError):
    """An option is unknown, has a value that cannot be used, or contradicts another option."""


class UnsupportedError(PaimonError, NotImplementedError):
    """The table or the request needs a Paimon feature that this package does not have."""


class CorruptTableError(PaimonError):
    """A file of the table cannot be understood.

    Attributes:
        path: The file's path, or None when the bytes came from nowhere in particular.
    """

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message if path is None or path in message else f"{message} (file: {path})")
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., CorruptTableError], tuple[Any, ...]]:
        """Pickle by the finished message and the path."""
        return _corrupt_table_error, (type(self), str(self), self.path)


def _corrupt_table_error(kind: type[CorruptTableError], message: str, path: str | None) -> CorruptTableError:
    error = kind(message)
    error.path = path
    return error


class StorageError(PaimonError, OSError):
    """The disk or the store failed, or could not be reached; the message says at which path and what to do.

    It is an `OSError` too, with the number of the operating system in `errno` where there was one.
    """

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.errno = number

    def __str__(self) -> str:
        """The message alone."""
        return str(self.args[0])

    def __reduce__(self) -> tuple[Callable[..., StorageError], tuple[Any, ...]]:
        """Pickle by the message and the number."""
        return type(self), (self.args[0], self.errno)


class MissingFileError(StorageError, FileNotFoundError):
    """There is no such file, or no such bucket."""


class ExistingFileError(StorageError, FileExistsError):
    """There is such a file already."""


class StorageDeniedError(StorageError, PermissionError):
    """The file may not be read or written: rights or keys do not allow it."""


class ExpiredFileError(CorruptTableError):
    """A file that a snapshot names is not there: the snapshot has expired, or the table is damaged."""


class SnapshotNotFoundError(PaimonError):
    """The snapshot, tag or time asked for does not exist; the message says which exist."""


class SchemaError(PaimonError):
    """A schema is not valid, or does not fit."""


class SchemaMismatchError(SchemaError):
    """Data does not fit the table's schema: a column is missing, unknown, or of a type that cannot be cast safely."""


class SchemaChangeError(SchemaError):
    """A change of the schema or of its options is not allowed."""


class CommitError(PaimonError):
    """A commit did not take place, or its outcome is unknown."""


class CommitConflictError(CommitError):
    """The commit is void: another commit changed what it relies on. Its files may be deleted."""


class CommitStateUnknownError(CommitError):
    """It is unknown whether the commit took place, so none of its files may be deleted."""


class CommittedError(CommitError):
    """The commit took place; only what should follow it did not. What was written must not be written again."""


class TableBusyError(PaimonError):
    """Another process changes the table's snapshots, tags or branches and did not end in time; nothing was done."""


class CatalogServerError(PaimonError):
    """The server of a catalog cannot be reached, or refuses a request; nothing says more about it.

    Attributes:
        status: The HTTP status of the answer; 0 where there was none.
        resource: What the server did not find, or what is there already: ``TABLE``, ``SNAPSHOT``, …; may be empty.
    """

    def __init__(self, message: str, status: int = 0, resource: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.resource = resource

    def __reduce__(self) -> tuple[Callable[..., CatalogServerError], tuple[Any, ...]]:
        """Pickle by the message, the status and the resource."""
        return type(self), (str(self), self.status, self.resource)


class DataError(PaimonError):
    """A row holds a value that the table cannot take: null in a NOT NULL column, a bad row kind, an overflow."""


def cutting(
    method: Callable[..., Any], errors: type[Exception] | tuple[type[Exception], ...] = PaimonError
) -> Callable[..., Any]:
    """Return a method whose errors, those of ours by default, come without the frames below it."""

    @wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        __tracebackhide__ = True  # IPython leaves such frames out
        try:
            return method(*given, **named)
        except errors as error:
            raise error.with_traceback(None) from None

    return call


def cut_methods(kind: type[_T], errors: type[Exception] | tuple[type[Exception], ...] = PaimonError) -> type[_T]:
    """Let the errors of a class's public methods and properties come as of `cutting`; for use as a decorator."""
    for name, member in list(vars(kind).items()):
        if name.startswith("_"):
            continue
        if isinstance(member, FunctionType):
            setattr(kind, name, cutting(member, errors))
        elif isinstance(member, classmethod | staticmethod):
            setattr(kind, name, type(member)(cutting(member.__func__, errors)))
        elif type(member) is property and member.fget is not None:
            setattr(kind, name, property(cutting(member.fget, errors), doc=member.__doc__))
    return kind
