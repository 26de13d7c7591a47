"""Views and functions of a catalog as records: columns or parameters, and a text in the SQL of each engine.

Java: ``View``, ``ViewImpl``, ``ViewSchema``, ``ViewChange``.

Java: ``Function``, ``FunctionImpl``, ``FunctionDefinition``, ``CreateFunctionRequest``, ``RESTFunctionValidator``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from paimon_spark.errors import CorruptTableError, SchemaError
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.json_text import parse_json_object, pretty_json
from paimon_spark.spec.schema import assign_field_ids
from paimon_spark.spec.type_parser import parse_fields

SPARK_DIALECT: Final = "spark"


@dataclass(frozen=True)
class View:
    """What a catalog keeps of a view."""

    fields: tuple[DataField, ...]
    query: str
    """For an engine that has no dialect of its own."""
    dialects: Mapping[str, str] = field(default_factory=dict)
    """Queries by the names of engines."""
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def spark_query(self) -> str:
        """The query that Spark runs."""
        return self.dialects.get(SPARK_DIALECT, self.query)

    def to_json_object(self) -> dict[str, Any]:
        """As Java's ``ViewSchema`` is written."""
        return {
            "fields": [each.to_json() for each in self.fields],
            "query": self.query,
            "dialects": dict(self.dialects),
            **({} if self.comment is None else {"comment": self.comment}),
            "options": dict(self.options),
        }

    def to_json(self) -> str:
        """The text that a JDBC catalog keeps."""
        return pretty_json(self.to_json_object())

    @staticmethod
    def from_json(text: str, *, where: str) -> View:
        """Read the text that a JDBC catalog keeps.

        Raises:
            CorruptTableError: it is none.
        """
        return View.of(parse_json_object(text, what="view", path=where), where=where)

    @staticmethod
    def of(found: Any, *, where: str) -> View:
        """Read what Java's ``ViewSchema`` writes.

        Raises:
            CorruptTableError: it is no view.
        """
        try:
            comment = found.get("comment")
            fields = parse_fields(found["fields"])
            dialects, options = _texts(found.get("dialects")), _texts(found.get("options"))
            return View(fields, str(found["query"]), dialects, None if comment is None else str(comment), options)
        except (AttributeError, KeyError, TypeError, ValueError, SchemaError) as error:
            raise CorruptTableError(f"A view cannot be understood: {error}.", path=where) from None


def new_view(
    fields: Sequence[DataField], query: str, *, comment: str | None = None, options: Mapping[str, str] | None = None
) -> View:
    """A view of Spark's, as the official connector makes it."""
    return View(assign_field_ids(fields)[0], query, {SPARK_DIALECT: query}, comment, dict(options or {}))


@dataclass(frozen=True)
class ViewChange:
    """One change of a view."""

    action: str
    """As in Java: setOption, removeOption, updateComment, addDialect, updateDialect, dropDialect."""
    name: str | None = None
    """The option or the dialect."""
    value: str | None = None
    """Its value, its query, or the comment."""

    def to_json_object(self) -> dict[str, Any]:
        """As Java writes it."""
        names = {"setOption": ("key", "value"), "removeOption": ("key", ""), "updateComment": ("", "comment")}
        name_key, value_key = names.get(self.action, ("dialect", "" if self.action == "dropDialect" else "query"))
        found: dict[str, Any] = {"action": self.action}
        return {
            **found,
            **({name_key: self.name} if name_key else {}),
            **({value_key: self.value} if value_key else {}),
        }


def changed_view(view: View, changes: Iterable[ViewChange], *, name: str) -> View:
    """The view after changes.

    Raises:
        SchemaError: a dialect is there already, or is not there.
    """
    options, dialects, comment = dict(view.options), dict(view.dialects), view.comment
    for change in changes:
        key, value = change.name or "", change.value or ""
        if change.action == "setOption":
            options[key] = value
        elif change.action == "removeOption":
            options.pop(key, None)
        elif change.action == "updateComment":
            comment = change.value
        else:
            _check_dialect(key, name, wanted=change.action != "addDialect", there=key in dialects)
            if change.action == "dropDialect":
                del dialects[key]
            else:
                dialects[key] = value
    return replace(view, options=options, dialects=dialects, comment=comment)


def _check_dialect(dialect: str, view: str, *, wanted: bool, there: bool) -> None:
    if wanted and not there:
        raise SchemaError(f"Dialect {dialect} in view {view} does not exist.")
    if there and not wanted:
        raise SchemaError(f"Dialect {dialect} in view {view} already exists.")


def _texts(found: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in (found or {}).items()}


_NAME: Final = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Function:
    """What a catalog keeps of a function."""

    inputs: tuple[DataField, ...] = ()
    returns: tuple[DataField, ...] = ()
    deterministic: bool = True
    definitions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By the names of engines; the key ``type`` of each is sql, file or lambda."""
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def spark_kind(self) -> str:
        """The kind of the definition for Spark: sql, file or lambda; empty where there is none."""
        return str(self.definitions.get(SPARK_DIALECT, {}).get("type", ""))

    @property
    def spark_body(self) -> str:
        """The expression or query that Spark runs."""
        return str(self.definitions[SPARK_DIALECT]["definition"])

    def to_json_object(self, name: str) -> dict[str, Any]:
        """As Java's ``CreateFunctionRequest`` is written."""
        return {
            "name": name,
            "inputParams": [each.to_json() for each in self.inputs],
            "returnParams": [each.to_json() for each in self.returns],
            "deterministic": self.deterministic,
            "definitions": {key: dict(value) for key, value in self.definitions.items()},
            "comment": self.comment,
            "options": dict(self.options),
        }

    @staticmethod
    def of(found: Any, *, where: str) -> Function:
        """Read what Java's ``GetFunctionResponse`` writes.

        Raises:
            CorruptTableError: it is no function.
        """
        try:
            comment = found.get("comment")
            return Function(
                parse_fields(found.get("inputParams") or []),
                parse_fields(found.get("returnParams") or []),
                bool(found.get("deterministic")),
                {str(key): dict(value) for key, value in (found.get("definitions") or {}).items()},
                None if comment is None else str(comment),
                {str(key): str(text) for key, text in (found.get("options") or {}).items() if text is not None},
            )
        except (AttributeError, KeyError, TypeError, ValueError, SchemaError) as error:
            raise CorruptTableError(f"A function cannot be understood: {error}.", path=where) from None


def sql_definition(body: str) -> dict[str, Mapping[str, Any]]:
    """The definitions of a function of Spark's SQL."""
    return {SPARK_DIALECT: {"type": "sql", "definition": body}}


def check_function_name(name: str) -> None:
    """Refuse a name that no function can have.

    Raises:
        SchemaError: it is one.
    """
    if not is_function_name(name):
        raise SchemaError(
            f"Invalid function name: {name}. It needs a letter, and may have letters, digits, '.', '_' and '-' alone."
        )


def is_function_name(name: str) -> bool:
    """Whether a function can have a name."""
    return _NAME.fullmatch(name) is not None
