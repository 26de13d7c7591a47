"""Options whose key has a free part: one per column, per index, or any ending; which keys they stand for."""

from __future__ import annotations


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
