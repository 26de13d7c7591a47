"""Calls to a Hive metastore over Thrift, by the stubs of the package pymetastore."""

from __future__ import annotations

import contextlib
import getpass
import logging
import os
import threading
import time
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from paimon_spark.errors import PaimonError
from paimon_spark.metastore.hive_settings import Address

_LOG = logging.getLogger(__name__)
_PACKAGE: Final = "pip install 'paimon-spark[hive]'"
_ROUNDS: Final = 3
"""So often each server is tried before the metastore counts as gone, as Hive's client does."""
_PAUSE_SECONDS: Final = 1.0
_local = threading.local()


class HiveRefusalError(PaimonError):
    """The metastore answered with an exception of its own; `kind` is the name of its class."""

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class HiveGoneError(PaimonError):
    """No metastore answers."""


class HiveNoAnswerError(PaimonError):
    """The connection ended before the answer: nobody knows whether the call took place."""


@dataclass(frozen=True)
class HiveClient:
    """Metastores that share a database. Picklable; each thread of a process keeps a connection of its own."""

    address: Address

    def call(self, method: str, *arguments: Any, once: bool = False, done_by: tuple[str, ...] = ()) -> Any:
        """Make one call.

        Where the connection ends before the answer, the call is sent once more over another one.

        Args:
            method: of Hive's Thrift interface.
            arguments: of the method.
            once: do not send it once more.
            done_by: kinds of refusals that say, of a call that is sent once more, that the first one took place; then
                there is no answer.

        Raises:
            HiveRefusalError: the metastore refuses.
            HiveGoneError: it cannot be reached.
            HiveNoAnswerError: it gives no answer, and none to the second call either.
        """
        try:
            return self._try(method, arguments)
        except HiveNoAnswerError as first:
            if once:
                raise
            _LOG.info("%s", first)
        try:
            return self._try(method, arguments)
        except HiveRefusalError as error:
            if error.kind in done_by:
                return None
            raise

    def _try(self, method: str, arguments: tuple[Any, ...]) -> Any:
        from thrift.Thrift import TApplicationException, TException
        from thrift.transport.TTransport import TTransportException

        client = self._connection()
        try:
            return getattr(client, method)(*arguments)
        except (TTransportException, OSError, EOFError) as error:
            self._forget()
            raise HiveNoAnswerError(
                f"The Hive metastore {self.address.shown} gave no answer to {method}: {_sentence(error)}. See that it "
                "runs and can be reached; then run it again."
            ) from None
        except TException as error:
            kind = type(error).__name__
            if isinstance(error, TApplicationException):
                self._forget()
            raise HiveRefusalError(
                f"The Hive metastore {self.address.shown} refused {method}: {_sentence(error)} ({kind}).", kind
            ) from None

    def _connection(self) -> Any:
        kept = _connections()
        found = kept.get(self.address)
        if found is None:
            found = kept[self.address] = _connect(self.address)
        return found[0]

    def _forget(self) -> None:
        """Close the connection of this thread: after an error nobody knows in what state it is."""
        _, transport = _connections().pop(self.address, (None, None))
        if transport is not None:
            with contextlib.suppress(Exception):
                transport.close()


def user() -> str:
    """Who asks, and owns what is made, as Hadoop finds it where there is no Kerberos."""
    try:
        return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        return str(os.getuid())


def records() -> Any:
    """The module of the records that calls take and give.

    Raises:
        PaimonError: the package is not installed.
    """
    return _module("pymetastore.hive_metastore.ttypes")


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise PaimonError(f"A Hive catalog needs the package pymetastore: {_PACKAGE}") from None


def _connections() -> dict[Address, tuple[Any, Any]]:
    """The connections of this thread; those of a process that this one was forked from are not its own."""
    if getattr(_local, "process", None) != os.getpid():
        _local.process, _local.connections = os.getpid(), {}
    return _local.connections  # type: ignore[no-any-return]


def _connect(address: Address) -> tuple[Any, Any]:
    service = _module("pymetastore.hive_metastore.ThriftHiveMetastore")
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.Thrift import TApplicationException
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TBufferedTransport, TTransportException

    failure: Exception | None = None
    for turn in range(_ROUNDS):
        if turn:
            time.sleep(_PAUSE_SECONDS)
        for host, port in address.servers:
            socket = TSocket(host, port)
            socket.setTimeout(address.timeout_seconds * 1000)
            transport = TBufferedTransport(socket)
            client = service.Client(TBinaryProtocol(transport))
            try:
                transport.open()
                with contextlib.suppress(TApplicationException, service.MetaException):  # as Java: it goes on without
                    client.set_ugi(user(), [])
            except (TTransportException, OSError, EOFError) as error:
                failure = error
                with contextlib.suppress(Exception):
                    transport.close()
            else:
                return client, transport
    assert failure is not None
    raise HiveGoneError(
        f"The Hive metastore {address.shown} cannot be reached: {_sentence(failure)}. See that it runs and that 'uri' "
        "is right; then run it again."
    )


def _sentence(error: Exception) -> str:
    text = getattr(error, "message", None) or str(error) or type(error).__name__
    return str(text).strip().splitlines()[0].rstrip(".")
