"""Table options that a session has set: ``SET spark.paimon.…``, by the names of tables or by paths.

What is given nearer to the read or write wins; of the options that name a point of time only the nearest ones count.

Options of other formats that users try first are known here: some have an equal, for the others there is advice. So are
the options of a write that say how the columns of a table become those of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.options import canonical_options, find_option, unknown_option_error
from paimon_spark.spec.schema_merge import MergeRules
from paimon_spark.table.paths import system_table_in
from paimon_spark.table.time_travel import CREATED_AFTER, INCREMENTAL_KEYS, MODE, TRAVEL_KEYS

SAME_AS: Final[Mapping[str, str]] = {"versionasof": "scan.version", "mergeschema": "write.merge-schema"}
"""Options (in lower case) of Delta and of Spark's files, and the option here that means the same."""
_INSTEAD: Final[Mapping[str, str]] = {
    "overwriteschema": "mode('overwrite') keeps the table's columns. CREATE OR REPLACE TABLE … AS SELECT gives new "
    "ones, ALTER TABLE changes them, and 'write.merge-schema' = 'true' adds those that the table lacks",
    "snapshot-id": "'scan.snapshot-id' = '5' reads a snapshot",
    "as-of-timestamp": "'scan.timestamp-millis' reads as of a time",
    "tag": "'scan.tag-name' reads a tag",
    **dict.fromkeys(
        ("catalog", "database", "table"),
        "a path is given without names of a catalog. By name a table is read with spark.read.table('catalog.db.t') and "
        "written with df.write.saveAsTable('catalog.db.t') or df.writeTo('catalog.db.t')",
    ),
    **dict.fromkeys(
        ("readchangefeed", "readchangedata", "startingversion", "startingtimestamp", "start-snapshot-id"),
        "'incremental-between' = '1,5' reads the changes after one snapshot or tag up to another, as "
        "PaimonTable.changes(1, 5) does, and 'incremental-between-timestamp' those between two times",
    ),
}


def as_paimon_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options, those of other formats under Paimon's keys.

    Raises:
        OptionError: one has no meaning here (the message says what to use), or is given in both spellings.
    """
    lowered = {key.lower() for key in options}
    translated: dict[str, str] = {}
    for key, value in options.items():
        same = SAME_AS.get(key.lower())
        if same is not None and same in lowered:
            raise OptionError(f"option '{key}' is Paimon's '{same}', which is given too: leave one of them out")
        instead = _INSTEAD.get(key.lower())
        if instead is not None:
            raise OptionError(f"Unknown option '{key}': {instead}.")
        translated[key if same is None else same] = value
    return translated


MERGE_SCHEMA: Final = "write.merge-schema"
MERGE_KEYS: Final = (MERGE_SCHEMA, f"{MERGE_SCHEMA}.type-widening", f"{MERGE_SCHEMA}.explicit-cast")
"""Each counts only where the one before it is true."""


def merge_rules(*layers: Mapping[str, str]) -> MergeRules | None:
    """How a write changes the table's columns; None where it does not.

    Args:
        layers: options in Paimon's spelling, in any case; later ones win.

    Raises:
        OptionError: a value is neither true nor false.
    """
    given = {key.lower(): value for layer in layers for key, value in layer.items() if key.lower() in MERGE_KEYS}
    merges, widens, explicit = (_is_true(key, given.get(key, "false")) for key in MERGE_KEYS)
    return MergeRules(widen=widens, explicit=widens and explicit) if merges else None


def merge_options(rules: MergeRules) -> dict[str, str]:
    """The options that say so."""
    return {key: str(value).lower() for key, value in zip(MERGE_KEYS, (True, rules.widen, rules.explicit), strict=True)}


def _is_true(key: str, text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(f"option '{key}' is true or false, not '{text}'")
    return text.strip().lower() == "true"


SESSION_PREFIX = "spark.paimon."
POINTS_OF_TIME = (*TRAVEL_KEYS, *INCREMENTAL_KEYS, *CREATED_AFTER.values(), MODE)
"""Options that say what of the table's history is read."""
_NO_CATALOG = ""


def options_for_table(settings: Mapping[str, str], name: tuple[str, str, str]) -> dict[str, str]:
    """The options among a session's settings that count for the table of a name (catalog, database, table).

    ``spark.paimon.<option>`` counts for every table; ``spark.paimon.<catalog>.<database>.<table>.<option>``, where each
    name may be ``*``, for the tables it names, and wins.

    Raises:
        OptionError: a setting is no option of Paimon's; the message names the nearest.
    """
    everywhere: dict[str, str] = {}
    named: list[tuple[int, str, str]] = []
    for key, value in settings.items():
        if not key.startswith(SESSION_PREFIX):
            continue
        option = key.removeprefix(SESSION_PREFIX)
        if find_option(option) is not None:
            everywhere[option] = value
            continue
        parts = option.split(".", 3)
        if len(parts) < 4:
            raise _unknown_in_session(option, key)
        if all(part in ("*", own) for part, own in zip(parts, name, strict=False)):
            named.append((sum(part != "*" for part in parts[:3]), parts[3], value))
    own = {option: value for _, option, value in sorted(named, key=lambda item: item[0])}
    for option in own:
        if find_option(option) is None:
            raise _unknown_in_session(option, next(key for key in settings if key.endswith(f".{option}")))
    return layered(everywhere, own)


def options_for_path(settings: Mapping[str, str], path: str) -> dict[str, str]:
    """The options among a session's settings that count for the table at a path, which belongs to no catalog.

    Of ``spark.paimon.<catalog>.<database>.<table>.<option>`` those count that have ``*`` for the catalog. The database
    is the directory above the table without ``.db``.

    Raises:
        OptionError: as of `options_for_table`.
    """
    above, _, table = path.rstrip("/").rpartition("/")
    database = above.rpartition("/")[2]
    own = database.removesuffix(".db") if database.endswith(".db") else ""
    return options_for_table(settings, (_NO_CATALOG, own, table_of(table)))


def table_of(name: str) -> str:
    """The table (and branch) whose system table a name is: what is set for `t` counts for ``t$files``."""
    if "/" in name or system_table_in(name) is None:
        return name
    return name.rpartition("$")[0]


def _unknown_in_session(option: str, key: str) -> OptionError:
    """Return the error for an unknown setting, which says how to reset it."""
    return OptionError(f"{unknown_option_error(option)} The session has it as {key}: RESET {key} takes it back.")


def layered(*layers: Mapping[str, str]) -> dict[str, str]:
    """Join options of several origins: later ones win, and a point of time replaces all earlier ones."""
    result: dict[str, str] = {}
    for layer in layers:
        options = canonical_options(dict(layer))
        if any(key in POINTS_OF_TIME for key in options):
            result = {key: value for key, value in result.items() if key not in POINTS_OF_TIME}
        result.update(options)
    return result


def refuse_older_state(options: Iterable[str], *, where: str = "") -> None:
    """Refuse to change a table at a point of its history.

    Args:
        options: keys of the options that count for the table.
        where: who gave them; the key is put for ``{key}``.

    Raises:
        UnsupportedError: one of them names a version or a time.
    """
    key = next((key for key in options if key in POINTS_OF_TIME), None)
    if key is not None:
        raise UnsupportedError("a table at an earlier version cannot be changed" + where.format(key=key))
