"""Starts the command line; says what to install where its libraries are missing."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from paimon_spark.storage.extras import pip_command

_LIBRARIES = ("click", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code: 0 done, 1 failed, 2 called wrongly.

    Args:
        arguments: behind the program's name; those of the process when not given.
    """
    try:
        from paimon_spark.cli.commands import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _LIBRARIES:
            raise
        print(
            f"The command line needs {error.name}, which is not installed: {pip_command('cli')}",
            file=sys.stderr,
        )
        return 2
    return run(sys.argv[1:] if arguments is None else list(arguments))
