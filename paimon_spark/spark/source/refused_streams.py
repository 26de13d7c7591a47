"""Writing streams is not supported yet. It is refused early; the message names what works instead."""

from __future__ import annotations

from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.session.session_settings import is_connect, is_paimon, remember_format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MARK = "_paimon_refuses_streams"


def refuse_stream_write() -> NoReturn:
    """Refuse ``writeStream``.

    Raises:
        UnsupportedError: always.
    """
    raise UnsupportedError(
        "writeStream to a Paimon table is not supported yet. Write each micro-batch: writeStream.foreachBatch(lambda "
        "rows, number: rows.write.format('paimon').mode('append').save(path)).start()"
    )


def refuse_streams(spark: SparkSession) -> None:
    """Let ``writeStream`` of a session refuse the format at once. Calling it again does no harm."""
    where = "connect.streaming" if is_connect(spark) else "streaming"
    module: Any = import_module(f"pyspark.sql.{where}.readwriter")
    for kind, actions, refuse in ((module.DataStreamWriter, ("start", "toTable"), refuse_stream_write),):
        if not hasattr(kind, _MARK):
            setattr(kind, _MARK, True)
            remember_format(kind)
            for action in actions:
                setattr(kind, action, _refusing(getattr(kind, action), refuse))


def _refusing(plain: Any, refuse: Any) -> Any:
    @wraps(plain)
    def refusing(self: Any, *arguments: Any, **named: Any) -> Any:
        if is_paimon(self, arguments, named):
            refuse()
        return plain(self, *arguments, **named)

    return refusing
