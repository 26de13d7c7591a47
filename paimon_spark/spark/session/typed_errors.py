"""Errors of this package that come back through Spark are the classes of `errors` again, with one sentence as text.

Spark passes on only a text: of an error in a task a page with the worker's traceback, of one in planning a sentence
that has the name of its class or, where Java throws it, not even that. Here such an error becomes an instance of both
its own class and Spark's: ``except paimon_spark.TableNotFoundError`` catches it, and so does ``AnalysisException``.
"""

from __future__ import annotations

import functools
import re
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, cast

from pyspark.errors import PySparkException
from pyspark.errors.exceptions import captured

from paimon_spark import errors
from paimon_spark.errors import PaimonError
from paimon_spark.spark.session.pyspark_members import wrap_method

_RAISED = re.compile(
    r"paimon_spark\.errors\.(\w+): (.+?)"
    r"(?=\s*(?:\n\s*at |\n\n|\n  File |\nTraceback|\nDuring |\nThe above |\nSQLSTATE|\Z))",
    re.DOTALL,
)
"""The last line of a traceback."""
_PLANNED = re.compile(r"Python data source `?paimon`?: (\w+): (.+?)(?: SQLSTATE: \w+)?(?:\n\nJVM|\Z)", re.DOTALL)
_ON_SAIL = re.compile(
    r"(?:Python error: \[\w+::\w+\]|\nRuntimeError: External error:) (\w+): (.+?)(?:\nTraceback:|\Z)", re.DOTALL
)
"""As Sail tells an error of a Python source, the worker's traceback behind the sentence; and of a function."""
_NAMED = re.compile(r"(\w+Error): (.+)", re.DOTALL)
"""As proxies hand it to Java."""
_NO_MODULE = re.compile(
    r"ModuleNotFoundError: No module named '(?:paimon_spark|pyspark_paimon|pyarrow|numpy|fastavro|fsspec)"
)
_NO_PACKAGE = (
    "The Python of Spark's workers cannot import paimon_spark ({}). Install it there, on every node; or, where another "
    "Python has it, call spark.stop(), set os.environ['PYSPARK_PYTHON'] to that Python and make the session anew (on "
    "Spark Connect: the server). docs/deployment.md says what goes where"
)
_NOT_REGISTERED = (
    "This session does not know format('paimon'): call paimon_spark.register(spark), which repairs that or says what "
    "to do"
)
_USUAL = "paimon"
"""What documents call a catalog."""
_NO_SUCH_CATALOG = (
    f"There is no catalog `{_USUAL}` yet: call paimon_spark.register_catalog(spark, '{_USUAL}', warehouse=…)"
)
_DIRECT_QUERY = re.compile(r"UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY\].*: `?paimon\b")
_NO_DATABASE = (
    "A table of a catalog is named by three parts, paimon.database.table (SHOW DATABASES IN paimon); a path is read by "
    "spark.read.format('paimon').load(path), or as CREATE TEMPORARY VIEW v USING paimon OPTIONS (path '…')"
)
"""Spark takes `paimon.t` for a path of the format."""
_ROUTINE = re.compile(r"UNRESOLVED_ROUTINE\].*routine `sys`\.`(\w+)`")
_THREE_PARTS = "REQUIRES_SINGLE_PART_NAMESPACE"
_NO_CATALOG = re.compile(
    r"(?:REQUIRES_SINGLE_PART_NAMESPACE.*got identifier|TABLE_OR_VIEW_NOT_FOUND[^`]*|SCHEMA_NOT_FOUND[^`]*"
    r"`spark_catalog`\.)\s*`([^`]+)`",
    re.DOTALL,
)
"""Errors of Spark's about a name whose first part may be the catalog that was meant."""
_NULL = re.compile(r"\[NOT_NULL_ASSERT_VIOLATION\][^\n]*\n\s*(\S+)")
"""Spark's own check of an INSERT's rows, which does not say of which table."""
_TABLE_CHANGE = re.compile(r"\[\w+\] Unsupported table change: (.+?)(?: SQLSTATE: \w+)?", re.DOTALL)
"""What ALTER TABLE says of an error of ours."""
_SHOWS_FRAMES = "spark.sql.pyspark.jvmStacktrace.enabled"
_MARK = "_paimon_gives_types"
_MOST = 256
_reported: OrderedDict[str, str] = OrderedDict()
"""Text of errors that were handed to Java without their names -> name."""
_catalogs: set[str] = set()
"""The names of catalogs that were registered in this process."""


def remember_catalog_name(name: str) -> None:
    """Let errors about names that are nearly this one's say so."""
    _catalogs.add(name)


def remember_error(error: PaimonError) -> None:
    """Keep the class of an error of which Java gets the text alone."""
    _reported[str(error)] = type(error).__name__
    if len(_reported) > _MOST:
        _reported.popitem(last=False)


def typed_error(error: PySparkException) -> PySparkException:
    """Return an error of Spark's as one of ours too, if it is one; else as it is."""
    if isinstance(error, PaimonError):
        return error
    text = str(error)
    raised = _RAISED.findall(text)
    planned = _PLANNED.search(text)
    first = text.split("\n\nJVM stacktrace:", 1)[0]
    if raised:
        name, sentence = raised[-1]
    elif planned is not None:
        name, sentence = planned.groups()
    elif (named := _ON_SAIL.search(text) or _NAMED.fullmatch(first)) is not None:
        name, sentence = named.groups()
    elif first in _reported:
        name, sentence = _reported[first], first
    elif (refused := _TABLE_CHANGE.fullmatch(first.strip())) is not None and refused[1] in _reported:
        name, sentence = _reported[refused[1]], first
    elif (lacking := _NO_MODULE.search(text)) is not None and "paimon" in text:
        name, sentence = PaimonError.__name__, _NO_PACKAGE.format(f"{lacking.group()}'")
    elif _catalogs and (null := _NULL.search(first)) is not None:
        name = errors.DataError.__name__
        sentence = f"[NOT_NULL_ASSERT_VIOLATION] Cannot write null to non-null column({null.group(1)})."
    elif "DATA_SOURCE_NOT_FOUND" in first and re.search(r"data source: `?paimon\b", first):
        name, sentence = PaimonError.__name__, _NOT_REGISTERED
    else:
        return _with_catalog(error, first)
    kind = class_named(name)
    if kind is None:
        return error
    return _made(kind, error, re.sub(r" SQLSTATE: \w+\s*$", "", sentence.strip()))


def _with_catalog(error: PySparkException, text: str) -> PySparkException:
    """Return an error about a name of Spark's, with the catalog of ours that was probably meant."""
    if _DIRECT_QUERY.search(text):
        return _renamed_told(error, text, _NO_DATABASE)
    if _catalogs and (routine := _ROUTINE.search(text)) is not None:
        name = _USUAL if _USUAL in _catalogs else min(_catalogs)
        sentence = f"Procedures belong to a catalog: CALL {name}.sys.{routine.group(1)}(…), or USE {name} before"
        return _renamed_told(error, text, sentence)
    found = _NO_CATALOG.search(text)
    if found is None:
        return error
    name = found.group(1)
    meant = get_close_matches(name, _catalogs - {name}, 1)
    if meant:
        sentence = f"There is neither a catalog nor a database `{name}`. Did you mean catalog `{meant[0]}`?"
    elif name == _USUAL and name not in _catalogs and _THREE_PARTS in text:
        sentence = _NO_SUCH_CATALOG
    else:
        return error
    return _renamed_told(error, text, sentence)


def _renamed_told(error: PySparkException, text: str, sentence: str) -> PySparkException:
    """Return an error of Spark's with a sentence in place of its text; the name of its condition stays."""
    condition = re.match(r"\s*(\[\S+\])", text)
    sentence = f"{condition.group(1)} {sentence}" if condition else sentence
    return _told(error, _renamed(cast("Any", _own_class(error))), sentence)


def class_named(name: str) -> type[PaimonError] | None:
    """Return the class of ours that has a name; None where it is none."""
    kind = getattr(errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, PaimonError) else None


def failed_file_error(error: PySparkException, kind: type[PaimonError], sentence: str) -> PySparkException:
    """Return an error of Spark's about a data file as one of ours."""
    return _made(kind, error, f"[FAILED_READ_FILE] {sentence}")


def _made(kind: type[PaimonError], error: PySparkException, text: str) -> PySparkException:
    return _told(error, _both(cast("Any", kind), cast("Any", _own_class(error))), text)


def _own_class(error: PySparkException) -> type[PySparkException]:
    return captured.CapturedException if isinstance(error, captured.UnknownException) else type(error)


def _told(error: PySparkException, kind: Any, text: str) -> PySparkException:
    """Return an error with what is known of another one, of a class and with a text of its own."""
    made: Any = kind.__new__(kind, text)
    made.__dict__.update(error.__dict__)
    made.args = (text,)
    for note in getattr(error, "__notes__", ()):
        if note not in getattr(made, "__notes__", ()):
            made.add_note(note)
    found: PySparkException = made
    return found


@functools.cache
def _renamed(spark: Any) -> Any:
    """A class of Spark's whose text is what it was given."""
    members = {"__str__": lambda self: str(self.args[0]), "__module__": spark.__module__}
    return type(spark.__name__, (spark,), members)


@functools.cache
def _both(kind: Any, spark: Any) -> Any:
    def shown(self: Any) -> str:
        return str(self.args[0])

    def reduced(self: Any) -> tuple[Any, ...]:
        return kind, (shown(self),)

    members = {"__str__": shown, "__reduce__": reduced, "__module__": kind.__module__, "path": None, "errno": None}
    return type(kind.__name__, (kind, spark), members)


def raise_typed_errors_of_classic() -> None:
    """Let errors out of the JVM of this process be such ones. Calling it again does no harm."""
    module: Any = captured
    own = module.convert_exception
    if hasattr(own, _MARK):
        return

    @functools.wraps(own)
    def convert(error: Any) -> Any:
        __tracebackhide__ = True
        found = own(error)
        known = isinstance(found, PySparkException) and not isinstance(found, captured.UnknownException)
        return typed_error(found) if known else found

    setattr(convert, _MARK, True)
    module.convert_exception = convert


def raise_typed_errors_of_connect(better: Callable[[Any, PySparkException], PySparkException]) -> None:
    """Let clients of Spark Connect raise them. Calling it again does no harm.

    Args:
        better: is given a client and an error of the server, and returns one that tells more, or the same.
    """
    from pyspark.sql.connect.client.core import SparkConnectClient

    wrap_method(SparkConnectClient, "_handle_error", functools.partial(_handling, better))


def _handling(
    better: Callable[[Any, PySparkException], PySparkException], own: Callable[..., Any]
) -> Callable[..., Any]:
    def handle(self: Any, *given: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        try:
            own(self, *given, **named)
        except PySparkException as error:
            raise typed_error(_without_frames(self, better(self, error))) from None

    return handle


def _without_frames(client: Any, error: PySparkException) -> PySparkException:
    """Let an error that Spark has a condition for be told without the server's frames, as on a classic session.

    There the setting ``spark.sql.pyspark.jvmStacktrace.enabled`` shows them, and so it does here; `getStackTrace` has
    them all the same.
    """
    if not getattr(error, "_display_stacktrace", False) or not error.getCondition():
        return error
    from pyspark.sql.connect.conf import RuntimeConf

    with suppress(Exception):  # the error is the one to tell
        if RuntimeConf(client).get(_SHOWS_FRAMES, "false") != "true":
            vars(error)["_display_stacktrace"] = False
    return error
