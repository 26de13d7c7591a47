"""Partitions: their texts by column, the time that each stands for, the largest one, and conditions for sets of them.

The texts are those of directories and metastores (Java: ``InternalRowPartitionComputer``). Times equal Java's use of
``PartitionTimeExtractor`` when partitions expire and when they are written: the pattern and the date-time formats of
the options ``partition.timestamp-pattern`` and ``partition.timestamp-formatter``. The largest partition is what the
function ``max_pt`` gives. Conditions are the ranges of a set, to leave out manifests, as Java's
``PartitionPredicate.fromMultiple``, or exactly the set.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from paimon_spark.errors import DataError, OptionError
from paimon_spark.options import OPTIONS
from paimon_spark.spec.java_text import partition_value_text
from paimon_spark.spec.predicate import Always, And, Leaf, Or, Predicate
from paimon_spark.table.data_layout import DataLayout

if TYPE_CHECKING:
    from paimon_spark.options import CoreOptions
    from paimon_spark.table.table import FileStoreTable


def partition_spec(table: FileStoreTable, partition: bytes) -> dict[str, str]:
    """The values of a partition by column, before they are escaped."""
    layout = DataLayout.of(table.schema)
    values = zip(layout.partition_keys, layout.partition_values(partition), layout.partition_types, strict=True)
    return {
        key: partition_value_text(
            value, data_type, legacy=layout.legacy_partition_name, default_name=layout.default_partition_name
        )
        for key, value, data_type in values
    }


def live_partition_specs(table: FileStoreTable) -> list[dict[str, str]]:
    """The partitions that have files in the latest snapshot."""
    latest = table.snapshots.latest_to_follow()
    found = () if latest is None else table.manifests.live_columns(latest, statistics=False).partitions
    return [partition_spec(table, each) for each in dict.fromkeys(found)]


def data_root(table: FileStoreTable) -> str:
    """The directory in which those of the partitions are."""
    inside = DataLayout.of(table.schema).data_directory
    return f"{table.path}/{inside}" if inside else table.path


_PATTERN = OPTIONS["partition.timestamp-pattern"]
_FORMATTER = OPTIONS["partition.timestamp-formatter"]

_DEFAULT = re.compile(r"(-?\d{1,10})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?", re.ASCII)
_FIELDS = {"y": "year", "u": "year", "M": "month", "L": "month", "d": "day"}


def partition_texts(layout: DataLayout, partition: bytes) -> dict[str, str]:
    """Return the values of a partition as texts, by column."""
    # Java: dates are numbers of days here and timestamps have a T, so that no such partition is a time
    return {
        name: partition_value_text(value, data_type, legacy=False, default_name=layout.default_partition_name)
        for name, data_type, value in zip(
            layout.partition_keys, layout.partition_types, layout.partition_values(partition), strict=True
        )
    }


def time_of_partition(layout: DataLayout, options: CoreOptions, partition: bytes) -> datetime | None:
    """Return the local time that a partition stands for; None when its values are no time.

    Raises:
        OptionError: `partition.timestamp-formatter` cannot be used.
    """
    pattern = options.get(_PATTERN)
    needed = [
        value
        for name, value in zip(layout.partition_keys, layout.partition_values(partition), strict=True)
        if (f"${name}" in pattern if pattern else name == layout.partition_keys[0])
    ]
    if None in needed:
        return None
    return partition_time(partition_texts(layout, partition), pattern, options.get(_FORMATTER))


def check_partition_time(layout: DataLayout, options: CoreOptions, partition: bytes) -> None:
    """Check that a partition to be written is a time, where `partition.timestamp-format.strict` asks for that.

    As in Java nothing is checked where neither a pattern nor a formatter is given.

    Raises:
        DataError: its values are no time.
        OptionError: `partition.timestamp-formatter` cannot be used.
    """
    if not options.value("partition.timestamp-format.strict") or not layout.partition_keys:
        return
    if options.get(_PATTERN) is None and options.get(_FORMATTER) is None:
        return
    if time_of_partition(layout, options, partition) is None:
        shown = ", ".join(f"{name}={text}" for name, text in partition_texts(layout, partition).items())
        raise DataError(
            f"Partition {shown} does not match the 'partition.timestamp-formatter' or 'partition.timestamp-pattern' "
            "configuration. This might be caused by an incorrectly specified partition field. Please check your "
            "partition configuration, or set 'partition.timestamp-format.strict' to false."
        )


def largest_partition(table: FileStoreTable) -> str:
    """The largest value of the first partition column among the partitions that have files, as a directory shows it.

    Values are compared in the column's type: the integer 10 is larger than 9. NULL is the smallest.

    Raises:
        OptionError: the table has no partition columns, or nothing in its partitions.
    """
    if not table.schema.partition_keys:
        raise OptionError(f"{table.path} is not a partitioned table, so no partition is its largest")
    snapshot = table.snapshots.latest()
    partitions = (
        [] if snapshot is None else list(set(table.manifests.live_columns(snapshot, statistics=False).partitions))
    )
    values = table.manifests.partition_batch(partitions).column(0).to_pylist() if partitions else []
    known = [value for value in values if value is not None]
    if not known:
        raise OptionError(f"{table.path} has no partitions yet, so none is its largest: write rows first")
    first = table.schema.partition_fields[0].type
    return partition_value_text(max(known), first, legacy=False, default_name="")


_FIELDS |= {"H": "hour", "m": "minute", "s": "second", "S": "fraction"}
_LETTERS = re.compile(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|(.)", re.DOTALL)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LAST_YEAR = 9999


def partition_time(values: Mapping[str, str], pattern: str | None, formatter: str | None) -> datetime | None:
    """Return the local time of a partition, None when its values do not make one.

    Times after the year 9999 are given as the last one that Python knows.

    Args:
        values: texts of the partition columns by name, in their order.
        pattern: how they make a text, such as ``$dt $hh:00:00``; the first column when not given.
        formatter: Java's pattern of that text, such as ``yyyyMMdd``; ``yyyy-MM-dd[ HH:mm:ss[.S]]`` when not given.

    Raises:
        OptionError: the formatter cannot be used.
    """
    text = next(iter(values.values())) if pattern is None else _filled(pattern, values)
    return _default_time(text) if formatter is None else _formatted_time(text, formatter)


def _filled(pattern: str, values: Mapping[str, str]) -> str:
    """Replace ``$name`` by the value, the longest name first."""
    names = sorted(values, key=len, reverse=True)
    if not names:
        return pattern
    return re.sub("\\$(" + "|".join(map(re.escape, names)) + ")", lambda found: values[found[1]], pattern)


def _default_time(text: str) -> datetime | None:
    """A lenient reading, as Java's: a 13th month is the first of the next year."""
    found = _DEFAULT.fullmatch(text)
    if found is None:
        return None
    year, month, day = (int(part) for part in found.groups()[:3])
    hour, minute, second = (int(part or 0) for part in found.groups()[3:6])
    micros = int((found[7] or "0").ljust(9, "0")[:6])
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    return _moved(year, month, timedelta(days=day - 1, hours=hour, minutes=minute, seconds=second, microseconds=micros))


def _moved(year: int, month: int, by: timedelta) -> datetime:
    if year < 1:
        return datetime.min
    try:
        return datetime(year, month, 1) + by
    except (OverflowError, ValueError):
        return datetime.max


def _formatted_time(text: str, formatter: str) -> datetime | None:
    expression = _expression(formatter)
    found = expression.fullmatch(text)
    if found is None:
        return None
    parts = found.groupdict()
    year = parts.get("year")
    if year is None or parts.get("month") is None or parts.get("day") is None:
        return None
    if parts.get("hour") is None and any(parts.get(name) for name in ("minute", "second", "fraction")):
        return None
    month = parts["month"]
    number = _MONTHS.index(month.title()) + 1 if month.title() in _MONTHS else int(month)
    whole = int(year) + 2000 if len(year) == 2 else int(year)
    if whole > _LAST_YEAR:
        return datetime.max
    try:
        # Java's SMART resolver takes the 31st of a shorter month as its last day
        return _smart(
            whole,
            number,
            int(parts["day"]),
            int(parts.get("hour") or 0),
            int(parts.get("minute") or 0),
            int(parts.get("second") or 0),
            int((parts.get("fraction") or "0").ljust(6, "0")[:6]),
        )
    except ValueError:
        return None


def _smart(year: int, month: int, day: int, hour: int, minute: int, second: int, micros: int) -> datetime:
    if hour == 24 and not minute and not second and not micros:
        return _smart(year, month, day, 0, 0, 0, 0) + timedelta(days=1)
    if 28 < day <= 31:
        following = datetime(year + month // 12, month % 12 + 1, 1) if (year, month) != (_LAST_YEAR, 12) else None
        last = 31 if following is None else (following - timedelta(days=1)).day
        day = min(day, last)
    return datetime(year, month, day, hour, minute, second, micros)


@functools.lru_cache(maxsize=32)
def _expression(formatter: str) -> re.Pattern[str]:
    """The regular expression of Java's pattern; optional parts in brackets are optional."""
    out: list[str] = []
    runs = list(_LETTERS.finditer(formatter))
    for number, found in enumerate(runs):
        quoted, letters, letter, other = found.groups()
        if quoted is not None:
            out.append(re.escape(quoted.replace("''", "'") or "'"))
        elif letters is not None:
            following = runs[number + 1] if number + 1 < len(runs) else None
            out.append(_field(formatter, letter, len(letters), next_to_number=bool(following and following[2])))
        else:
            out.append({"[": "(?:", "]": ")?"}.get(other, re.escape(other)))
    try:
        return re.compile("".join(out), re.ASCII)
    except re.error as error:
        raise _unusable(formatter) from error


def _field(formatter: str, letter: str, count: int, *, next_to_number: bool) -> str:
    name = _FIELDS.get(letter)
    if name is None:
        raise _unusable(formatter)
    if name == "month" and count == 3:
        return f"(?P<month>{'|'.join(_MONTHS)})"
    if name == "fraction" or count == 2:
        digits = rf"\d{{{count}}}"
    elif name == "year" and count >= 3:
        digits = rf"\d{{{count}}}" if next_to_number else rf"[+]?\d{{{count},10}}"
    elif count == 1:
        digits = r"\d{1,2}" if name != "year" else r"\d{1,10}"
    else:
        raise _unusable(formatter)
    return f"(?P<{name}>{digits})"


def _unusable(formatter: str) -> OptionError:
    return OptionError(
        f"Option 'partition.timestamp-formatter' = '{formatter}' cannot be used: give years as yyyy, months as MM, "
        "days as dd, hours as HH, minutes as mm, seconds as ss, fractions as SSS, each once, other letters in quotes."
    )


def range_predicate(table: FileStoreTable, partitions: Collection[bytes]) -> Predicate | None:
    """Return a predicate that is true for all of ``partitions`` and for few others, to prune manifests with.

    None when the table is not partitioned.
    """
    if not table.schema.partition_keys:
        return None
    if not partitions:
        return Always(False)
    batch = table.manifests.partition_batch(sorted(partitions))
    ranges: list[Predicate] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        within: list[Predicate] = [Leaf("is_null", name, ())] if column.null_count else []
        if column.null_count < len(column):
            order = pc.sort_indices(column.drop_null())
            ends = column.drop_null().take(order)
            within.append(Leaf("between", name, (ends[0].as_py(), ends[-1].as_py())))
        ranges.append(within[0] if len(within) == 1 else Or(tuple(within)))
    return And(tuple(ranges))


def exact_predicate(table: FileStoreTable, partitions: Collection[bytes]) -> Predicate | None:
    """Return a predicate over partition columns that is true for exactly ``partitions``.

    None when the table is not partitioned.
    """
    if not table.schema.partition_keys:
        return None
    rows = table.manifests.partition_batch(sorted(partitions)).to_pylist()
    return Or(
        tuple(
            And(tuple(Leaf("is_null", n, ()) if v is None else Leaf("eq", n, (v,)) for n, v in row.items()))
            for row in rows
        )
    )
