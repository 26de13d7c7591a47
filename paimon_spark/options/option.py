"""One option: its key, the kind of its value, default and meaning; and how the text of a value is understood.

Values are parsed as Java's ``OptionsUtils``, ``MemorySize`` and ``TimeUtils`` do.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any

from paimon_spark.errors import OptionError


class OptionKind(Enum):
    """The kind of an option's value; the comment is the Python type of the parsed value."""

    BOOL = "Boolean"  # bool
    INT = "Integer"  # int, 32 bit
    LONG = "Long"  # int, 64 bit
    FLOAT = "Double"  # float
    MEMORY = "MemorySize"  # int, bytes
    DURATION = "Duration"  # timedelta
    ENUM = "Enum"  # str, one of the choices
    STRING = "String"  # str
    MAP = "Map"  # dict[str, str]


class Scope(Enum):
    """Who looks at an option."""

    TABLE = "table"  # kept in the schema of the table; may be given dynamically unless immutable
    READ = "read"  # given with one read
    WRITE = "write"  # given with one write
    CATALOG = "catalog"  # given to register_catalog
    STORE = "store"  # how to reach the storage: never kept in a schema


class Stage(Enum):
    """What is refused where an option asks for what is not supported."""

    TABLE = "reading and writing"
    READ = "reading"
    WRITE = "writing"
    COMPACT = "compacting"
    COMMIT = "committing"
    TAG = "tagging"
    CATALOG = "giving it to register_catalog"
    GIVEN = "giving it with a statement"  # one that is stored in the table is ignored


@dataclass(frozen=True, slots=True)
class Refusal:
    """Values of an option that are refused, and where.

    Attributes:
        stage: What is refused.
        advice: What to do instead, a sentence.
        unless: The values that are let through, lower case; a blank one always is.
        only: The values that are refused, lower case; all others are let through. Empty: all but `unless` are refused.
    """

    stage: Stage
    advice: str
    unless: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    def concerns(self, text: str) -> bool:
        """Whether a value is refused."""
        value = text.strip().lower()
        return bool(value) and (value in self.only if self.only else value not in self.unless)


_UNITS_BYTES: dict[str, int] = {
    "": 1,
    **dict.fromkeys(("b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1 << 40),
}
_MICROS: dict[str, float] = {
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000),
    **dict.fromkeys(("min", "m", "minute", "minutes"), 60_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1_000),
    **dict.fromkeys(("µs", "micro", "micros", "microsecond", "microseconds"), 1),
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 0.001),
}
_LONG_MAX = 2**63 - 1


def _number_and_unit(text: str) -> tuple[int, str]:
    trimmed = text.strip()
    digits = len(trimmed) - len(trimmed.lstrip("0123456789"))
    if digits == 0:
        raise OptionError(f"'{text}' does not start with a number.")
    if digits > 19 or int(trimmed[:digits]) > _LONG_MAX:
        raise OptionError(f"The number of '{text}' does not fit 64 bits.")
    return int(trimmed[:digits]), trimmed[digits:].strip().lower()


def parse_memory_size(text: str) -> int:
    """Bytes that a memory size such as ``128 mb``, ``64kb`` or ``1024`` stands for.

    Raises:
        OptionError: Not a memory size.
    """
    value, unit = _number_and_unit(text)
    if unit not in _UNITS_BYTES:
        raise OptionError(f"Memory size unit '{unit}' of '{text}' is unknown; use b, kb, mb, gb or tb.")
    result = value * _UNITS_BYTES[unit]
    if result > _LONG_MAX:
        raise OptionError(f"The memory size '{text}' does not fit 64 bits.")
    return result


def parse_duration(text: str) -> timedelta:
    """The duration that a text such as ``1 h``, ``10 ms`` or ``5000`` (milliseconds) stands for.

    Raises:
        OptionError: Not a duration.
    """
    value, unit = _number_and_unit(text)
    if unit not in _MICROS:
        raise OptionError(f"Time unit '{unit}' of '{text}' is unknown; use d, h, min, s, ms, micro or ns.")
    try:
        return timedelta(microseconds=value * _MICROS[unit])
    except OverflowError:
        return timedelta.max


def _parse_bool(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise OptionError(f"Unrecognized option for boolean: {text}. Expected either true or false.")
    return lowered == "true"


def _parse_int(text: str, bits: int) -> int:
    trimmed = text.strip()
    body = trimmed[1:] if trimmed[:1] in ("-", "+") else trimmed
    if not body.isascii() or not body.isdigit() or len(body) > 19:
        raise OptionError(f"'{text}' is not an integer.")
    value = int(trimmed)
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise OptionError(f"{text} does not fit {bits} bits.")
    return value


def _parse_float(text: str) -> float:
    try:
        return float(text.strip())
    except ValueError:
        raise OptionError(f"'{text}' is not a number.") from None


def _parse_map(text: str) -> dict[str, str]:
    result: dict[str, str] = {}
    for entry in (part.strip() for part in text.split(",")):
        if not entry:
            continue
        key, colon, value = entry.partition(":")
        if not colon:
            raise OptionError(f"'{text}' is not a map: write it as key1:value1,key2:value2.")
        result[key.strip()] = value.strip()
    return result


def _same_word(left: str, right: str) -> bool:
    return left.strip().lower() == right.lower()


@dataclass(frozen=True, slots=True)
class Option:
    """One option that we know, whether or not we can do what it asks for.

    Attributes:
        key: Its canonical key. `<field>`, `<type>`, ... stand for any text; a trailing `*` for any ending.
        type: The kind of its value.
        default: The parsed value without the option (None: no default).
        description: What it does, one or two sentences.
        fallback_keys: Older keys that mean the same.
        immutable: Whether it is fixed when the table is created.
        scope: Who looks at it.
        choices: The values of an ENUM.
        honoured: Whether a value that is not refused is acted on.
        refusals: Values that are refused by name, since ignoring them would change a result or a promise.
        instead: What happens where the option is ignored, a sentence; None where it never is.
    """

    key: str
    type: OptionKind
    default: Any
    description: str
    fallback_keys: tuple[str, ...] = ()
    immutable: bool = False
    scope: Scope = Scope.TABLE
    choices: tuple[str, ...] = ()
    honoured: bool = False
    refusals: tuple[Refusal, ...] = ()
    instead: str | None = None

    def parse(self, text: str) -> Any:
        """The value that a text stands for, in the Python type of the option's kind.

        Raises:
            OptionError: The text is not a value of the option; names the option and what it takes.
        """
        try:
            return self._parsed(text)
        except OptionError as error:
            raise OptionError(f"Could not parse value '{text}' for key '{self.key}'. {error}") from None

    def _parsed(self, text: str) -> Any:
        match self.type:
            case OptionKind.BOOL:
                return _parse_bool(text)
            case OptionKind.INT:
                return _parse_int(text, 32)
            case OptionKind.LONG:
                return _parse_int(text, 64)
            case OptionKind.FLOAT:
                return _parse_float(text)
            case OptionKind.MEMORY:
                return parse_memory_size(text)
            case OptionKind.DURATION:
                return parse_duration(text)
            case OptionKind.MAP:
                return _parse_map(text)
            case OptionKind.ENUM:
                for choice in self.choices:
                    if _same_word(text, choice):
                        return choice
                raise OptionError(f"Expected one of: [{', '.join(self.choices)}].")
        return text
