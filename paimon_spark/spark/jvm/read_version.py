"""Options of reads and the version they mean: given with the read, by VERSION AS OF, or by ``SET spark.paimon.…``.

What is given nearer to the read wins; of the options that name a point of time only the nearest ones count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.options import canonical_options, find_option, unknown_option_error
from paimon_spark.table.paths import parse_table_path
from paimon_spark.table.time_travel import INCREMENTAL_KEYS, MODE, TRAVEL_KEYS, resolve_snapshot

if TYPE_CHECKING:
    from paimon_spark.spark.jvm.gateway import Gateway
    from paimon_spark.table.table import FileStoreTable

SESSION_PREFIX = "spark.paimon."
_DONE_BY_SPARK = ("versionasof", "timestampasof")
POINTS_OF_TIME = (*TRAVEL_KEYS, *INCREMENTAL_KEYS, MODE)
"""Options that say what of the table's history is read."""


def session_options(
    gateway: Gateway, catalog: str, database: str, table: str, *, write: bool = False
) -> dict[str, str]:
    """The table options that the session of the running statement has set for a table.

    ``spark.paimon.<option>`` counts for every table; ``spark.paimon.<catalog>.<database>.<table>.<option>``, where each
    name may be ``*``, for the tables it names, and wins.

    Args:
        gateway: the JVM.
        catalog: the catalog's name.
        database: the database's.
        table: the table's.
        write: leave out the options that name a point of time, which writes have no use for.

    Raises:
        OptionError: a setting is no option of Paimon's; the message names the nearest.
    """
    settings = gateway.jvm.org.apache.spark.sql.internal.SQLConf.get().settings()
    options = options_for_table(gateway.string_dict(settings), (catalog, database, _of_which(table)))
    return {key: value for key, value in options.items() if not (write and key in POINTS_OF_TIME)}


def _of_which(name: str) -> str:
    """The table (and branch) whose system table a name is: what is set for `t` counts for ``t$files``."""
    if "/" in name or parse_table_path(name).system_table is None:
        return name
    return name.rpartition("$")[0]


def options_for_table(settings: Mapping[str, str], name: tuple[str, str, str]) -> dict[str, str]:
    """The options among a session's settings that count for the table of a name (catalog, database, table)."""
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


def _unknown_in_session(option: str, key: str) -> OptionError:
    """What to do about a setting that nobody knows: ignored, it would give other rows than those asked for."""
    return OptionError(f"{unknown_option_error(option)} The session has it as {key}: RESET {key} takes it back.")


def layered(*layers: Mapping[str, str]) -> dict[str, str]:
    """Options of several origins as one, the later ones winning; a point of time replaces all earlier ones."""
    result: dict[str, str] = {}
    for layer in layers:
        options = canonical_options(dict(layer))
        if any(key in POINTS_OF_TIME for key in options):
            result = {key: value for key, value in result.items() if key not in POINTS_OF_TIME}
        result.update(options)
    return result


def with_read_options(table: FileStoreTable, options: Mapping[str, str], *, pinned: bool = False) -> FileStoreTable:
    """The table with the options of one read on top; its columns stay those that Spark was told.

    Args:
        table: as it was loaded.
        options: given with the read.
        pinned: whether VERSION AS OF or TIMESTAMP AS OF said which version the table is.

    Raises:
        OptionError: an option is unknown, or cannot be changed for a read, or names a second point of time.
    """
    known = _known(options)
    if pinned:
        refuse_second_version(known)
    if not known:
        return table
    return _with_layer(table, known)


def refuse_second_version(options: Mapping[str, str]) -> None:
    """Refuse options that say what of the table's history is read, where VERSION AS OF or TIMESTAMP AS OF says it too.

    Raises:
        OptionError: names the option.
    """
    second = next((key for key in canonical_options(dict(options)) if key in POINTS_OF_TIME), None)
    if second is not None:
        raise OptionError(
            f"{second} must be null when VERSION AS OF or TIMESTAMP AS OF is given: a read is of one version or of the "
            "changes between two. Leave one of them out."
        )


def at_version(table: FileStoreTable, *layers: Mapping[str, str]) -> FileStoreTable:
    """The table with options of several origins, and with the columns of the time that they name, if they do.

    Raises:
        OptionError: options contradict each other.
        SnapshotNotFoundError: there is no such snapshot or tag.
    """
    options = layered(*layers)
    changed = _with_layer(table, options) if options else table
    if not any(key in options for key in TRAVEL_KEYS) or any(key in options for key in INCREMENTAL_KEYS):
        return changed
    snapshot = resolve_snapshot(changed)
    return changed if snapshot is None else changed.at_snapshot(snapshot)


def _with_layer(table: FileStoreTable, options: Mapping[str, str]) -> FileStoreTable:
    layer = canonical_options(dict(options))
    branch = layer.pop("branch", table.branch)
    if branch != table.branch:
        raise UnsupportedError(
            f"Option 'branch' cannot change the branch of a catalog's table. Read it by its name: `t$branch_{branch}`."
        )
    if any(key in POINTS_OF_TIME for key in layer):
        table = table.without_options([key for key in POINTS_OF_TIME if key in table.options])
    return table.with_options(layer)


def _known(options: Mapping[str, str]) -> dict[str, str]:
    """The options that are ours; Spark hands over those, too, by which it has asked for the version of the table."""
    options = {key: value for key, value in options.items() if key.lower() not in _DONE_BY_SPARK}
    unknown = [key for key in options if find_option(key) is None]
    if unknown:
        raise unknown_option_error(unknown[0], ())
    return dict(options)
