"""Whether the files of a commit that failed may be deleted: only where no snapshot can have them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from paimon_spark.errors import CommitStateUnknownError, CommittedError, PaimonError

_LOG = logging.getLogger(__name__)


@contextmanager
def undone_where_void(undo: Callable[[], object]) -> Iterator[None]:
    """Undo what was prepared where the commit inside published nothing, for certain.

    That is where it raises an error of this package that says so. An interrupt (Ctrl-C) or an error of another kind may
    come when the snapshot is there already. Then the files stay; those that no snapshot has are orphans.
    """
    try:
        yield
    except (CommitStateUnknownError, CommittedError):
        raise
    except PaimonError:
        try:
            undo()
        except Exception as failed:  # noqa: BLE001 - what is left are orphans; the first error says what went wrong
            _LOG.warning("What a void commit has left could not be deleted: %s", failed)
        raise
