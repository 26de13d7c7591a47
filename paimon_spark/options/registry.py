"""The table of every option we know, and how a key given by a user finds its entry, or those that it was meant to be.

The definitions are in `options.csv`, one row an option, and in `refusals.csv`, the values that are refused. An empty
cell means none. Defaults are written as a user writes a value (`128 mb`, `10 s`); `''` is the empty text. Several
values of a cell have spaces between them. A key may have a free part: one per column, per index, or any ending.

Options as keyword arguments: ``scan_tag_name`` is `scan.tag-name`.
"""

from __future__ import annotations

import csv
import pkgutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from paimon_spark.errors import OptionError
from paimon_spark.options.option import Option, OptionKind, Refusal, Scope, Stage

_SEPARATORS = str.maketrans("", "", "-_. ")
_FIELDS = "fields."
_FOREIGN_PREFIXES = ("spark.paimon.", "paimon.")
_OTHER_FORMAT = "metadata.iceberg."
"""Keys whose ends, such as ``format-version``, are words of another format: a property may have such a name."""
_SHORTEST = 6
"""Letters of a known key from which on one letter more, less or other is a slip; shorter ones are near other words."""
_LONG = 12
"""Letters from which on two neighbouring letters may be wrong."""


def near_keys(key: str, known: Iterable[str], columns: Sequence[str] = ()) -> list[str]:
    """The known keys that differ from `key` by separators, case, a letter, or a prefix left out or put before.

    Args:
        key: a key that is none of the known ones.
        known: fixed keys, and patterns such as ``fields.<field>.aggregate-function``.
        columns: of the table, as far as there is one: ``<column>.sequence-group`` lacks a prefix.
    """
    lowered = key.strip().lower()
    for prefix in _FOREIGN_PREFIXES:
        lowered = lowered.removeprefix(prefix)
    every = list(known)
    patterns = [pattern for pattern in every if pattern.startswith(f"{_FIELDS}<field>.")]
    fixed = [name for name in every if "<" not in name and not name.endswith("*")]
    squashed = _squashed(lowered)
    same = [name for name in fixed if _squashed(name) == squashed]
    if same:
        return same
    slips = [name for name in fixed if _is_slip(squashed, _squashed(name))]
    if slips:
        return slips
    if len(squashed) < len(lowered):  # several words: one alone is the end of many keys
        ends = [name for name in fixed if name.endswith(f".{lowered.replace('_', '-')}")]
        longer = [name for name in ends if not name.startswith(_OTHER_FORMAT)]
        if longer:
            return longer
    return _near_fields(lowered, patterns, columns)


def _near_fields(key: str, patterns: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The options of one column that a key such as ``field.v.aggregate_function`` or ``v.sequence-group`` is near."""
    ends = [(pattern, _squashed(pattern.removeprefix(f"{_FIELDS}<field>."))) for pattern in patterns]
    squashed = _squashed(key)
    found = [pattern for pattern, end in ends if squashed == end and len(squashed) < len(key)]
    if found:
        return found  # the column is missing
    first, _, rest = key.partition(".")
    of_fields = _squashed(first) == "fields" or _is_slip(_squashed(first), "fields")
    names, dot, suffix = (rest if of_fields else key).rpartition(".")
    known_columns = {column.lower() for column in columns}
    if not dot or not (of_fields or {name.strip() for name in names.split(",")} <= known_columns):
        return [pattern for pattern, end in ends if squashed.startswith("fields") and squashed.endswith(end)]
    word = _squashed(suffix)
    found = [pattern.replace("<field>", names) for pattern, end in ends if end == word or _is_slip(word, end)]
    return found or [pattern for pattern, end in ends if of_fields and squashed.endswith(end)]


def _squashed(key: str) -> str:
    return key.lower().translate(_SEPARATORS)


def _is_slip(given: str, known: str) -> bool:
    """Whether two words differ in one place, by one letter or two that changed places; long ones by two letters."""
    if len(known) < _SHORTEST or abs(len(given) - len(known)) > 2:
        return False
    start = 0
    while start < min(len(given), len(known)) and given[start] == known[start]:
        start += 1
    end = 0
    while end < min(len(given), len(known)) - start and given[-1 - end] == known[-1 - end]:
        end += 1
    left, right = given[start : len(given) - end], known[start : len(known) - end]
    if left == right[::-1] and len(left) <= 2:
        return True
    two = len(known) >= _LONG and min(len(left), len(right)) > 0
    return max(len(left), len(right)) <= (2 if two else 1)


_EMPTY_TEXT = "''"


def defined_options() -> Iterator[Option]:
    """Yield the options, in the order of the table."""
    refusals: defaultdict[str, list[Refusal]] = defaultdict(list)
    for row in _rows("refusals.csv"):
        values = {"only": tuple(row["only"].split()), "unless": tuple(row["unless"].split())}
        refusals[row["key"]].append(Refusal(Stage[row["stage"].upper()], row["advice"], **values))
    for row in _rows("options.csv"):
        option = Option(
            key=row["key"],
            type=OptionKind(row["kind"]),
            default=None,
            description=row["description"],
            fallback_keys=tuple(row["fallback_keys"].split()),
            immutable=row["immutable"] == "yes",
            scope=Scope(row["scope"]),
            choices=tuple(row["choices"].split()),
            honoured=row["honoured"] == "yes",
            refusals=tuple(refusals.get(row["key"], ())),
            instead=row["instead"] or None,
        )
        yield replace(option, default=_default(option, row["default"]))


def _default(option: Option, text: str) -> Any:
    if not text:
        return None
    value = option.parse("" if text == _EMPTY_TEXT else text)
    return MappingProxyType(value) if isinstance(value, dict) else value


def _rows(name: str) -> Iterator[dict[str, str]]:
    data = pkgutil.get_data(__package__, name)
    assert data is not None
    yield from csv.DictReader(data.decode().splitlines())


def match_pattern(pattern: str, key: str) -> tuple[str, ...] | None:
    """What the free parts of a pattern stand for in a key (fixed parts compared without case); None when it differs.

    The first free part takes as much as the rest allows, since column names may hold dots.
    """
    lowered = key.lower()
    if pattern.endswith("*"):
        fixed = pattern[:-1]
        return (key[len(fixed) :],) if lowered.startswith(fixed) and len(key) > len(fixed) else None
    fixed_parts, parts = _split(pattern)
    if not lowered.startswith(fixed_parts[0]):
        return None
    rest = key[len(fixed_parts[0]) :]
    values: list[str] = []
    for after in fixed_parts[1:-1]:
        at = rest.lower().rfind(after) if parts[len(values)] == "field" else rest.lower().find(after)
        if at <= 0:
            return None
        values.append(rest[:at])
        rest = rest[at + len(after) :]
    last = fixed_parts[-1]
    if last and not rest.lower().endswith(last):
        return None
    values.append(rest[: len(rest) - len(last)])
    return tuple(values) if all(values) else None


def fill_pattern(pattern: str, values: tuple[str, ...]) -> str:
    """The key that a pattern gives with its free parts filled in."""
    if pattern.endswith("*"):
        return pattern[:-1] + values[0]
    fixed_parts, _ = _split(pattern)
    result = fixed_parts[0]
    for value, after in zip(values, fixed_parts[1:], strict=True):
        result += value + after
    return result


def free_parts(pattern: str) -> tuple[str, ...]:
    """What the free parts of a pattern are: `field`, `type`, `option`, `class`; a trailing `*` counts as `option`."""
    return ("option",) if pattern.endswith("*") else tuple(_split(pattern)[1])


def _split(pattern: str) -> tuple[list[str], list[str]]:
    fixed, names = [], []
    rest = pattern
    while "<" in rest:
        before, _, rest = rest.partition("<")
        name, _, rest = rest.partition(">")
        fixed.append(before)
        names.append(name)
    return [*fixed, rest], names


_ALL: tuple[Option, ...] = tuple(defined_options())


def _is_pattern(option: Option) -> bool:
    return "<" in option.key or option.key.endswith("*")


PATTERNS: tuple[Option, ...] = tuple(sorted(filter(_is_pattern, _ALL), key=lambda option: option.key.endswith("*")))
"""Options whose key has a free part, such as `fields.<field>.aggregate-function`; more special ones come first."""

OPTIONS: Mapping[str, Option] = MappingProxyType({option.key: option for option in _ALL if not _is_pattern(option)})
"""Every option with a fixed key, by its canonical key."""

_BY_LOWER: dict[str, tuple[str, Option]] = {
    # a key of its own wins over another option's fallback key
    **{key.lower(): (key, option) for option in OPTIONS.values() for key in option.fallback_keys},
    **{key.lower(): (key, option) for key, option in OPTIONS.items()},
}


@lru_cache(4096)
def find_option(key: str) -> Option | None:
    """The option that a key (fallback keys too, without regard to case) or a pattern names; None when unknown."""
    entry = _BY_LOWER.get(key.lower())
    if entry is not None:
        return entry[1]
    return next((option for option in PATTERNS if match_pattern(option.key, key) is not None), None)


def with_scope(options: Mapping[str, str], *scopes: Scope) -> dict[str, str]:
    """Those of the options that are looked at in one of the scopes; unknown ones are not among them."""
    found = {key: find_option(key) for key in options}
    return {key: options[key] for key, option in found.items() if option is not None and option.scope in scopes}


_OF_LOCKS: Final = frozenset({"uri", "lock.enabled", "lock.type", "lock-check-max-sleep", "lock-acquire-timeout"})
LOCK_OPTIONS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "jdbc": _OF_LOCKS | {"catalog-key", "lock-key-max-length", "jdbc.*"},
        "hive": _OF_LOCKS
        | {
            "hive-conf-dir",
            "metastore.client.class",
            "hive.*",
            "security.kerberos.login.keytab",
            "security.kerberos.login.principal",
            "security.kerberos.login.use-ticket-cache",
        },
    }
)
"""Options that a lock has use for, by its `lock.type`."""
METASTORE_OPTIONS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "jdbc": LOCK_OPTIONS["jdbc"] | {"sync-all-properties"},
        "hive": LOCK_OPTIONS["hive"]
        | {
            "sync-all-properties",
            "table.type",
            "location-in-properties",
            "format-table.enabled",
            "alter-table-cascade",
        },
        "rest": frozenset({"uri", "token", "token.*", "dlf.*", "header.*", "prefix", "data-token.enabled"}),
    }
)
"""Options of catalogs by their kind of metastore; others have no use for them."""
_OF_METASTORE: Final = frozenset({"metastore", "warehouse"}).union(*METASTORE_OPTIONS.values())


def reaching_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those of the options by which a table is reached: its store's, and those of its catalog where they name one.

    A catalog is named by ``warehouse`` together with ``metastore`` or ``lock.type``.
    """
    found = {key: find_option(key) for key in options}
    known = {option.key for option in found.values() if option is not None}
    of_catalog = _OF_METASTORE if "warehouse" in known and known & {"metastore", "lock.type"} else frozenset()
    return {
        key: options[key]
        for key, option in found.items()
        if option is not None and (option.scope is Scope.STORE or option.key in of_catalog)
    }


def canonical_options(options: Mapping[str, str], columns: Iterable[str] = ()) -> dict[str, str]:
    """The options with the keys that Spark has put in lower case written as Paimon writes them.

    Known keys (fallback keys too) get their canonical case; the column in `fields.<column>.…` gets the case it has in
    `columns`, as far as only one column differs by nothing but case. Unknown keys stay as they are.
    """
    by_lower: dict[str, str] = {}
    for column in columns:
        # an exact name always wins; of names that differ only by case none is guessed
        by_lower[column.lower()] = "" if column.lower() in by_lower else column
    return {_canonical_key(key, by_lower): text for key, text in options.items()}


def _canonical_key(key: str, columns: Mapping[str, str]) -> str:
    entry = _BY_LOWER.get(key.lower())
    if entry is not None:
        return entry[0]
    for option in PATTERNS:
        values = match_pattern(option.key, key)
        if values is not None:
            named = [
                _column_case(value, columns) if part == "field" else value
                for part, value in zip(free_parts(option.key), values, strict=True)
            ]
            return fill_pattern(option.key, tuple(named))
    return key


def _column_case(names: str, columns: Mapping[str, str]) -> str:
    if names in columns.values():
        return names
    if names.lower() in columns:
        return columns[names.lower()] or names
    return ",".join(columns.get(name.lower()) or name for name in names.split(","))


def unknown_option_error(key: str, extra_keys: Iterable[str] = (), columns: Sequence[str] = ()) -> OptionError:
    """The error for a key nobody knows; it names the nearest known ones.

    Args:
        key: The key as given.
        extra_keys: More keys that would have been accepted in this place.
        columns: Columns of the table, as far as they are known.
    """
    known = {k.lower(): k for k in (*OPTIONS, *extra_keys, *(option.key for option in PATTERNS))}
    near = near_keys(key, known.values(), columns)
    near = near or [known[match] for match in get_close_matches(key.lower(), known, n=3, cutoff=0.6)]
    if not near:
        return OptionError(f"Unknown option '{key}'. Options are Paimon's keys, such as 'scan.snapshot-id'.")
    return OptionError(f"Unknown option '{key}'. Did you mean {' or '.join(repr(n) for n in near[:3])}?")


def check_new_options(keys: Iterable[str], columns: Sequence[str]) -> None:
    """Refuse keys of table options that are slips of the pen; any other unknown key is a property of the user's own.

    Java keeps every key it does not know, so that a table with `merge_engine` is one of another kind than was meant.

    Args:
        keys: Those that a statement sets, in Paimon's spelling.
        columns: Columns of the table.

    Raises:
        OptionError: A key is near one of Paimon's, which it names, or says of a column what no option says.
    """
    for key in keys:
        if find_option(key) is not None:
            continue
        if key.lower().startswith("fields."):
            raise _unknown_field_option(key, columns)
        if near_keys(key, (*_BY_LOWER, *(option.key for option in PATTERNS)), columns):
            raise unknown_option_error(key, (), columns)


def _unknown_field_option(key: str, columns: Sequence[str]) -> OptionError:
    of_fields = [option for option in (*OPTIONS, *(option.key for option in PATTERNS)) if option.startswith("fields.")]
    if near_keys(key, of_fields, columns):
        return unknown_option_error(key, (), columns)
    endings = ", ".join(option.removeprefix("fields.<field>.") for option in of_fields if "<field>" in option)
    return OptionError(f"Unknown option '{key}'. Options of a column are fields.<column>. and one of: {endings}.")


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
