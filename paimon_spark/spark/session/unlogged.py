"""Talk with the JVM that no log may hold, for secrets may be in it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_PY4J_LOGS: Final = ("py4j.java_gateway", "py4j.clientserver")


@contextmanager
def unlogged() -> Iterator[None]:
    """Keep py4j from logging what it sends and gets, which it does at level DEBUG."""
    loggers = [logging.getLogger(name) for name in _PY4J_LOGS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
