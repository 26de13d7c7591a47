"""Options as keyword arguments: ``scan_tag_name`` is `scan.tag-name`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paimon_spark.errors import OptionError
from paimon_spark.options.registry import OPTIONS

_MARKS = str.maketrans("", "", ".-_")
_OPTION_OF_NAME = {key.translate(_MARKS).lower(): key for key in OPTIONS}


def _comma_list(key: str, values: list[Any] | tuple[Any, ...]) -> str:
    return ",".join(str(value) for value in values)


def column_names(names: str | Sequence[str], other: str | Sequence[str] = ()) -> tuple[str, ...]:
    """Return names of columns, which are given as a list or as a comma list.

    Args:
        names: the columns.
        other: the same by another name of the argument.

    Raises:
        OptionError: both are given.
    """
    if names and other:
        raise OptionError(f"{names!r} and {other!r} are given by two names of one argument: give one of the two")
    names = names or other
    if not isinstance(names, str):
        return tuple(names)
    return tuple(name.strip() for name in names.split(",")) if names.strip() else ()


def option_keys(
    options: Mapping[str, Any], list_text: Callable[[str, list[Any] | tuple[Any, ...]], str] = _comma_list
) -> dict[str, str]:
    """Return options by their keys, as texts; those that are None are left out.

    Args:
        options: by keyword or key.
        list_text: the text of an option that is given as a list: a comma list when not given.
    """
    keys = {name: _OPTION_OF_NAME.get(name.translate(_MARKS).lower(), name) for name in options}
    return {keys[name]: _text(keys[name], value, list_text) for name, value in options.items() if value is not None}


def _text(key: str, value: Any, list_text: Callable[[str, list[Any] | tuple[Any, ...]], str]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return list_text(key, value) if isinstance(value, list | tuple) else str(value)
