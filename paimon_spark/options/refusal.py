"""Which given options are refused, and the one log line of those that are ignored."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.options.core_options import is_secret
from paimon_spark.options.option import Scope, Stage
from paimon_spark.options.registry import find_option, reaching_options

_LOG = logging.getLogger(__name__)
_MOST_LINES = 10_000
_logged: dict[tuple[str, str], int] = {}
"""For the table and key of each line that this process has logged, its level."""

GOVERNED = "query-auth.enabled"
_MADE = (Stage.TABLE, Stage.READ, Stage.WRITE, Stage.COMMIT)
"""What must not be refused of a table that is created or altered here."""


def refuse(options: Mapping[str, str], *stages: Stage) -> None:
    """Refuse options that ask for what is not supported in one of the stages.

    Args:
        options: of a table, with those of the read or write.
        stages: what is about to be done; the first one names it in the message.

    Raises:
        UnsupportedError: names the option, its value and what to do.
    """
    # what makes a table one of another kind is reported first
    for tried in ({Stage.TABLE} & set(stages), set(stages)):
        for key, value in options.items():
            option = find_option(key)
            for refusal in () if option is None else option.refusals:
                if refusal.stage in tried and refusal.concerns(value):
                    attempt = _ATTEMPTS[stages[0]]
                    raise UnsupportedError(
                        f"{attempt} option '{key}' = '{value}' is not supported yet. {refusal.advice}"
                    )


_ATTEMPTS = {
    Stage.READ: "Reading with",
    Stage.WRITE: "Writing with",
    Stage.COMPACT: "Compacting with",
    Stage.COMMIT: "Committing with",
    Stage.TAG: "Tagging with",
    Stage.GIVEN: "The",
    Stage.TABLE: "A table with",
}


def refuse_without_server(options: Mapping[str, str]) -> None:
    """Refuse options of a table that only the server of its catalog can act on, where there is none.

    Java lets such a table be made, and each read of it fails.

    Raises:
        UnsupportedError: names the option and what to do.
    """
    refuse({key: text for key, text in options.items() if key == GOVERNED}, Stage.TABLE)


def without_governing(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a table but for the one that lets the server of its catalog limit what is read."""
    return {key: text for key, text in options.items() if key != GOVERNED}


def accept_given(table: str, options: Mapping[str, str]) -> None:
    """Look at the options that a user gives with a read or a write: values are parsed, ignored ones are logged.

    Raises:
        OptionError: a value is invalid, or an option is one of catalogs.
        UnsupportedError: an option asks for what is not supported.
    """
    _parse(options)
    reaching = reaching_options(options)
    for key in options.keys() - reaching.keys():
        option = find_option(key)
        if option is not None and option.scope is Scope.CATALOG and (option.refusals or option.honoured):
            raise OptionError(f"Option '{key}' is one of a catalog: give it to register_catalog.")
    refuse(options, Stage.GIVEN)
    log_ignored(table, options, logging.WARNING)


def accept_stored(table: str, options: Mapping[str, str]) -> None:
    """Look at the options that a user sets for a table, when it is created or altered.

    Raises:
        OptionError: a value is invalid.
        UnsupportedError: the table could not be read or written with one of them.
    """
    _parse(options)
    refuse(options, Stage.TABLE, *_MADE)
    log_ignored(table, options, logging.WARNING)


def log_ignored(table: str, options: Mapping[str, str], level: int) -> None:
    """Log each option that is ignored, once for each key, table and process.

    Args:
        table: its path.
        options: of which those that are acted on are passed over.
        level: WARNING for what a user gives now, INFO for what a table has stored.
    """
    for key, value, instead in _ignored(options):
        if _logged.get((table, key), logging.NOTSET) >= level:
            continue
        if len(_logged) >= _MOST_LINES:
            _logged.clear()
        _logged[table, key] = level
        shown = "***" if is_secret(key) else value
        _LOG.log(level, "%s: option '%s' = '%s' is ignored. %s", table, key, shown, instead)


def _parse(options: Mapping[str, str]) -> None:
    for key, value in options.items():
        option = find_option(key)
        if option is not None:
            option.parse(value)


def _ignored(options: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    for key, value in options.items():
        option = find_option(key)
        if option is not None and option.instead is not None:
            yield key, value, option.instead
