"""Table options that a session has set: ``SET spark.paimon.…``, by the names of tables or by paths.

What is given nearer to the read or write wins; of the options that name a point of time only the nearest ones count.
"""

from __future__ import annotations

from collections.abc import Mapping

from paimon_spark.errors import OptionError
from paimon_spark.options import canonical_options, find_option, unknown_option_error
from paimon_spark.table.paths import parse_table_path
from paimon_spark.table.time_travel import CREATED_AFTER, INCREMENTAL_KEYS, MODE, TRAVEL_KEYS

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
    if "/" in name or parse_table_path(name).system_table is None:
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
