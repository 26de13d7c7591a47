"""Functions of a catalog: parameters, and a definition for each engine.

Java: ``Function``, ``FunctionImpl``, ``FunctionDefinition``, ``CreateFunctionRequest``, ``RESTFunctionValidator``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from paimon_spark.errors import CorruptTableError, SchemaError
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.type_parser import parse_fields
from paimon_spark.spec.view import SPARK_DIALECT

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
