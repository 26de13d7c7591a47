"""The session, path and options on which every part of a `PaimonTable` works."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, Protocol, TypeVar

from pyspark.errors import AnalysisException

from paimon_spark.errors import PaimonError, UnsupportedError, cut_methods
from paimon_spark.options import find_option, unknown_option_error
from paimon_spark.options.registry import option_keys as keyword_options
from paimon_spark.spark.jobs.snapshot_rows import snapshot_rows
from paimon_spark.spark.session.session_settings import activate, is_connect, settings_option
from paimon_spark.spark.source.source_options import COLUMNS, read_request
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.storage.store_options import redact
from paimon_spark.table.format_table import refuse_format_table
from paimon_spark.table.table import FileStoreTable, load_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_P = ParamSpec("_P")
_T = TypeVar("_T")
_R = TypeVar("_R")


def option_keys(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options by their keys: ``scan_tag_name`` is `scan.tag-name`; lists become comma lists."""
    return keyword_options(options, _list_text)


def dynamic_options(options: Mapping[str, Any], *arguments: str) -> dict[str, str]:
    """Return `option_keys` of a call's dynamic options.

    Args:
        options: as they were given.
        arguments: what the call takes besides.

    Raises:
        OptionError: a key is unknown.
    """
    keys = option_keys(options)
    unknown = next((key for key in keys if find_option(key) is None), None)
    if unknown is not None:
        raise unknown_option_error(unknown, arguments)
    return keys


def _list_text(key: str, values: list[Any] | tuple[Any, ...]) -> str:
    return ",".join(quoted_name(str(name)) if key == COLUMNS else str(name) for name in values)


@dataclass(frozen=True)
class TableHandle:
    """A table by its path. Nothing of the table is kept."""

    spark: SparkSession
    path: str
    options: Mapping[str, str]
    """How to reach the store."""

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: the session stays in its process, and the options hold credentials."""
        raise UnsupportedError(
            f"The table {redact(self.path)} belongs to its session and cannot be pickled, nor be used in a function "
            "that runs in tasks. Give its path on, and its rows as a DataFrame."
        )

    def load(self) -> FileStoreTable:
        """Open the table as it is now."""
        return refuse_format_table(load_table(self.path, options=self.options), "PaimonTable")

    def with_options(self, options: Mapping[str, Any]) -> FileStoreTable:
        """Open the table as it is now, with read options."""
        request = read_request({"path": self.path, **self.options, **option_keys(options)})
        return load_table(request.path, options=request.options)

    def to_df(self, **options: Any) -> DataFrame:
        """Return the rows of the table, by read options."""
        activate(self.spark)
        given = {**self.options, **option_keys(options)}
        if not is_connect(self.spark):
            from paimon_spark.spark.catalog.frames import path_frame  # needs py4j, which a Connect client may lack

            frame = path_frame(self.spark, {"path": self.path, **settings_option(self.spark), **given})
            if frame is not None:
                return frame
        return self.spark.read.format("paimon").options(**given).load(self.path)

    def snapshot_rows(
        self, snapshot_id: int, *, locations: Sequence[str] = (), opened: FileStoreTable | None = None, **options: Any
    ) -> DataFrame:
        """Return rows of a snapshot as files hold them, with the columns that the table has now.

        Args:
            snapshot_id: what is read, whatever the session has set.
            locations: metadata columns that come behind the others.
            opened: the table, if the statement has opened it already.
            options: `columns` and `filter`.
        """
        given = {"path": self.path, **self.options, **option_keys(options)}
        if not is_connect(self.spark):
            from paimon_spark.spark.catalog.frames import path_frame  # as above

            with_settings = {**settings_option(self.spark), **given}
            frame = path_frame(self.spark, with_settings, snapshot_id=snapshot_id, opened=opened)
            if frame is not None:
                return frame.select("*", *locations) if locations else frame
        return snapshot_rows(self.spark, given, snapshot_id, locations=locations, opened=opened)

    def read_system_table(self, name: str, options: Mapping[str, Any]) -> DataFrame:
        """Return the system table of that name, with read options."""
        activate(self.spark)
        reader = self.spark.read.format("paimon")
        return reader.options(**{**self.options, **option_keys(options)}).load(f"{self.path}${name}")


class TablePart:
    """Some of the methods of a `PaimonTable`."""

    def __init__(self, table: TableHandle) -> None:
        self.table = table


def user_methods(kind: type[_T]) -> type[_T]:
    """Let errors of a class's public methods come without frames: those of ours, and of what the caller gave."""
    return cut_methods(kind, (PaimonError, AnalysisException))


class HasHandle(Protocol):
    """Something that has parts."""

    @property
    def _table(self) -> TableHandle: ...


_Part = TypeVar("_Part", bound=TablePart)


def property_of(part: type[TablePart], name: str) -> property:
    """Return a property of a part as one of the whole, with its docstring."""
    own = inspect.getattr_static(part, name)
    return property(lambda self: getattr(part(self._table), name), doc=own.__doc__)


def method_of(
    part: type[_Part], method: Callable[Concatenate[_Part, _P], _R]
) -> Callable[Concatenate[HasHandle, _P], _R]:
    """Return a method of a part as a method of the whole, with its signature and docstring."""

    @wraps(method)
    def call(self: HasHandle, /, *arguments: _P.args, **named: _P.kwargs) -> _R:
        __tracebackhide__ = True
        return method(part(self._table), *arguments, **named)

    shown = signature(method)
    itself, *others = shown.parameters.values()
    parameters = [itself.replace(kind=itself.POSITIONAL_OR_KEYWORD), *others]
    call.__signature__ = shown.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__qualname__ = f"PaimonTable.{method.__name__}"
    return call
