"""Which known options a key that nobody knows is near: what its writer probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
