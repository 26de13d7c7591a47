"""Tables and databases that a process keeps for statements to come, where the options of a catalog ask for it.

Equals Java's ``CachingCatalog`` in what is kept, for how long, and what of our own changes ends it; but only where
``cache-enabled`` is given: by default every statement looks for its tables. Snapshots are asked for all the same, so
commits of others are seen at once. Their changes of columns and options, and a table that they dropped or made anew,
are seen when the time is over, or after REFRESH TABLE. A commit compares the schema, or the table's id, with the one
that it relies on (`file_store_commit`), and so never goes into another table.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from paimon_spark.errors import OptionError
from paimon_spark.options import OPTIONS, find_option
from paimon_spark.table.paths import is_plain_name

_ENABLED: Final = "cache-enabled"
_ACCESS: Final = "cache.expire-after-access"
_WRITE: Final = "cache.expire-after-write"
_MOST: Final = 1000
"""Entries of a process; the one that was not used for the longest time goes. Java: as many as memory has room for."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(slots=True)
class _Entry:
    value: Any
    places: tuple[str, ...]
    written: float
    used: float


_entries: dict[tuple[Any, ...], _Entry] = {}
_lock = threading.Lock()
_changes = 0
"""How often this process has forgotten something: what was looked up before may be out of date."""


@dataclass(frozen=True)
class CatalogCache:
    """What a catalog asks to be kept. Picklable; in another process nothing is kept yet."""

    catalog: tuple[tuple[str, str], ...] = field(repr=False)
    """Its options: catalogs of the same ones share what is kept."""
    access_seconds: float
    """How long something is kept that is not used."""
    write_seconds: float
    """How long it is kept at most."""

    @staticmethod
    def of(options: Mapping[str, str]) -> CatalogCache | None:
        """Return what the options of a catalog ask for; None for nothing.

        Raises:
            OptionError: a time is 0 or less.
        """
        if options.get(_ENABLED, "").strip().lower() != "true":
            return None
        access, write = _seconds(options, _ACCESS), _seconds(options, _WRITE)
        for key, seconds in ((_ACCESS, access), (_WRITE, write)):
            if seconds <= 0:
                raise OptionError(f"When '{key}' is set to negative or 0, the catalog cache should be disabled.")
        return CatalogCache(tuple(sorted(options.items())), access, write)


def without_cache(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a catalog but for those of its cache, which tables of it know nothing of."""
    return {key: text for key, text in options.items() if _key(key) not in (_ENABLED, _ACCESS, _WRITE)}


def kept(
    cache: CatalogCache | None,
    place: str,
    what: tuple[Any, ...],
    load: Callable[[], _T],
    places: Callable[[_T], tuple[str, ...]] = lambda _: (),
) -> _T:
    """What ``load`` finds, or has found a while ago.

    Args:
        cache: of the catalog; None for none.
        place: the path of the table or database in it.
        what: which of several things of the place.
        load: looks for it; None is not kept.
        places: further paths of what was found; an empty text among them says that it must not be kept.
    """
    if cache is None:
        return load()
    key = (cache, place, what)
    now = time.monotonic()
    with _lock:
        entry, before = _entries.get(key), _changes
        if entry is not None:
            if now - entry.used < cache.access_seconds and now - entry.written < cache.write_seconds:
                entry.used = now
                found: _T = entry.value
                return found
            del _entries[key]
    loaded = load()
    also = () if loaded is None else places(loaded)
    if loaded is None or "" in also:
        return loaded
    with _lock:
        if before == _changes:
            _entries[key] = _Entry(loaded, (place, *also), now, now)
            if len(_entries) > _MOST:
                del _entries[min(_entries, key=lambda each: _entries[each].used)]
    return loaded


def forget(path: str) -> None:
    """Keep nothing any more of a table, of its branches, or of a database and its tables, by their path.

    Whatever this process changes in a catalog is forgotten, also where another catalog has led to it.
    """
    global _changes  # noqa: PLW0603 - the state of this module, under its lock
    with _lock:
        _changes += 1
        below = f"{path.rstrip('/')}/"
        for key in [key for key, entry in _entries.items() if any(f"{at}/".startswith(below) for at in entry.places)]:
            del _entries[key]


def changing(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let a method of a catalog, given a database and perhaps a table, end with nothing kept of them."""

    @wraps(method)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return method(*args, **kwargs)
        finally:
            catalog: Any = args[0]
            names = [each for each in args[1:3] if isinstance(each, str)]
            if all(is_plain_name(name) for name in names):
                forget(catalog.table_path(*names) if len(names) == 2 else catalog.database_path(*names))

    return run


def _seconds(options: Mapping[str, str], key: str) -> float:
    option = OPTIONS[key]
    given = next((options[name] for name in (key, *option.fallback_keys) if name in options), None)
    seconds: float = (option.default if given is None else option.parse(given)).total_seconds()
    return seconds


def _key(given: str) -> str:
    option = find_option(given)
    return given if option is None else option.key
