"""``load`` of Connect sessions: what the server's log alone would say of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from paimon_spark.errors import PaimonError
from paimon_spark.spark.session.connect_messages import load_options, paimon_loads
from paimon_spark.spark.session.plain_methods import wrap_method
from paimon_spark.spark.session.session_settings import time_zone
from paimon_spark.spark.source.source_options import read_request
from paimon_spark.table.time_travel import is_in_future, named_time, time_text

_TIMES = ("timestampasof", "scan.timestamp")
"""Times as text. Those of statements come as numbers, and this client has resolved them already."""
_LOG = logging.getLogger(__name__)


def install_connect_loads() -> None:
    """Let loads of Connect sessions warn of a time that is still to come. Calling it again does no harm."""
    from pyspark.sql.connect.readwriter import DataFrameReader

    wrap_method(DataFrameReader, "load", _load)


def _load(own: Callable[..., Any]) -> Callable[..., Any]:
    def load(self: Any, *given: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        frame = own(self, *given, **named)
        for one in paimon_loads(frame._plan.plan(frame.sparkSession.client)):
            if any(key.lower() in _TIMES for key in one.options):
                with suppress(PaimonError):  # the server says what is wrong
                    _warn(load_options(one))
        return frame

    return load


def _warn(options: dict[str, str]) -> None:
    request = read_request(options)
    time_millis = named_time(request.options, time_zone(request.settings))
    if time_millis is not None and is_in_future(time_millis):
        _LOG.warning(
            "The time %s to read %s as of is in the future: the newest snapshot is read, and later reads may give "
            "other rows. Name a snapshot or a tag to stay on one.",
            time_text(time_millis),
            request.path,
        )
