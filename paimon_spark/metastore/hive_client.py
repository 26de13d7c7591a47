"""A Hive metastore: how it is reached, calls over Thrift by the stubs of pymetastore, and the lock of a table.

Options of a catalog count before ``hive-site.xml`` (Java: ``HiveCatalog.createHiveConf``). The lock is EXCLUSIVE
(Java: ``HiveCatalogLock``).
"""

from __future__ import annotations

import contextlib
import getpass
import logging
import os
import re
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlsplit
from xml.etree import ElementTree

from paimon_spark.errors import OptionError, PaimonError, UnsupportedError
from paimon_spark.metastore.hive_sasl import ENABLED, NEGOTIATION_SECONDS, HiveLoginError, KerberosLogin, SaslTransport
from paimon_spark.metastore.metastore import LockOptions
from paimon_spark.options.option import parse_duration
from paimon_spark.storage.extras import pip_command

SITE: Final = "hive-site.xml"
_URIS: Final = "hive.metastore.uris"
TLS: Final = "hive.metastore.use.SSL"
_TRUSTED: Final = "hive.metastore.truststore.path"
_DEFAULT_PORT: Final = 9083
_MOST_SITES: Final = 32
_OF_CLIENT: Final = ("hive.", "security.")
"""Options of a catalog that are settings of the client."""
_CLIENT_CLASS: Final = "org.apache.hadoop.hive.metastore.HiveMetaStoreClient"
_REFUSED: Final = {
    "hive.metastore.thrift.framed.transport.enabled": ("true", "framed transport"),
    "hive.metastore.thrift.compact.protocol.enabled": ("true", "the compact protocol"),
    "hive.metastore.client.thrift.transport.mode": ("http", "Thrift over HTTP"),
}
"""Settings of a client that this one cannot do, in lower case: the value, and what it is."""


@dataclass(frozen=True)
class Address:
    """Where metastores run that share a database, and how long an answer may take."""

    servers: tuple[tuple[str, int], ...]
    timeout_seconds: float
    login: KerberosLogin | None = None
    """Who asks; None where the metastore wants no Kerberos."""
    uses_tls: bool = False
    trusted: str | None = None
    """A PEM file with the certificates to trust; None for those of this machine."""

    @property
    def shown(self) -> str:
        """For messages."""
        return ",".join(f"thrift://{host}:{port}" for host, port in self.servers)


def settings_of(options: Mapping[str, str]) -> dict[str, str]:
    """The settings of ``hive-site.xml``, and over them those of the catalog.

    Raises:
        OptionError: the directory of ``hive-conf-dir`` has no such file, or it cannot be read.
        UnsupportedError: they ask for what this client cannot do.
    """
    folder = options.get("hive-conf-dir", "").strip() or os.environ.get("HIVE_CONF_DIR", "").strip()
    site = _site(folder) if folder else {}
    found = {**site, **{key: value for key, value in options.items() if key.lower().startswith(_OF_CLIENT)}}
    if options.get("uri", "").strip():
        found[_URIS] = options["uri"]
    for key, value in found.items():
        refused = _REFUSED.get(key.lower())
        if refused is not None and value.strip().lower() == refused[0]:
            raise UnsupportedError(
                f"The Hive metastore wants {refused[1]} ('{key}' = '{value}'), which is not supported. Give the "
                "address of one that takes plain Thrift, or use the official connector."
            )
    client = options.get("metastore.client.class", "").strip()
    if client not in ("", _CLIENT_CLASS):
        raise UnsupportedError(
            f"The catalog option 'metastore.client.class' = '{client}' is a class of Java, which cannot run here: only "
            "Hive's own metastore is asked. Remove the option."
        )
    return found


def address_of(settings: Mapping[str, str]) -> Address:
    """Where the metastores are, and who asks them.

    Raises:
        OptionError: no address is given, or it is none; or a setting of Kerberos or TLS cannot be used.
    """
    text = settings.get(_URIS, "").strip()
    if not text:
        raise OptionError(
            "A Hive catalog needs the option 'uri': thrift://<host>:<port>, several with commas between them; or "
            f"'hive-conf-dir', a directory with a {SITE} that has '{_URIS}'."
        )
    servers = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        split = urlsplit(part)
        try:
            host, port = split.hostname, split.port or _DEFAULT_PORT
        except ValueError:
            host, port = None, 0
        if split.scheme != "thrift" or not host:
            raise OptionError(f"'uri' = '{part}' is not the address of a Hive metastore: thrift://<host>:<port>")
        servers.append((host, port))
    timeout = settings.get("hive.metastore.client.socket.timeout", "600s")
    uses_tls = _setting(settings, TLS).lower() == "true"
    trusted = _setting(settings, _TRUSTED) or None
    address = Address(tuple(servers), _seconds(timeout), KerberosLogin.of(settings), uses_tls, trusted)
    if uses_tls:
        _tls_context(address)
    return address


def _speak_tls(opened: Any, address: Address, host: str) -> None:
    """Go on with TLS on a socket of Thrift's that is open."""
    opened.setTimeout(1000 * min(NEGOTIATION_SECONDS, address.timeout_seconds))
    opened.handle = _tls_context(address).wrap_socket(opened.handle, server_hostname=host)
    opened.setTimeout(1000 * address.timeout_seconds)


def _setting(settings: Mapping[str, str], name: str) -> str:
    """A setting whose key has upper case, which Spark takes away."""
    return next((text.strip() for key, text in settings.items() if key.lower() == name.lower()), "")


def _tls_context(address: Address) -> ssl.SSLContext:
    """What the metastore's certificate has to be.

    # Java: it needs a trust store.
    """
    try:
        return ssl.create_default_context(cafile=address.trusted)
    except OSError as error:  # of SSL, too
        raise OptionError(
            f"'{_TRUSTED}' = '{address.trusted}' cannot be read as a PEM file ({_sentence(error)}). Write one from a "
            "trust store of Java: keytool -list -rfc -keystore …"
        ) from None


def _seconds(text: str) -> float:
    """A length of time as Hive writes it: seconds where it names no unit."""
    return float(text) if re.fullmatch(r"\s*\d+\s*", text) else parse_duration(text).total_seconds()


def _site(folder: str) -> Mapping[str, str]:
    path = os.path.join(folder.removeprefix("file://"), SITE)
    try:
        found = os.stat(path)
        return _parsed(path, found.st_mtime_ns, found.st_size)
    except (OSError, ElementTree.ParseError) as error:
        raise OptionError(f"'hive-conf-dir' = '{folder}' has no {SITE} that can be read: {error}") from None


@lru_cache(_MOST_SITES)
def _parsed(path: str, _mtime: int, _size: int) -> Mapping[str, str]:
    """The settings in a file, which is read once as long as it does not change: each load of a table asks for them."""
    found = {}
    for entry in ElementTree.parse(path).iter("property"):
        name, value = entry.findtext("name"), entry.findtext("value")
        if name and value is not None:
            found[name.strip()] = value.strip()
    return found


_LOG = logging.getLogger(__name__)
_ROUNDS: Final = 3
"""So often each server is tried before the metastore counts as gone, as Hive's client does."""
_PAUSE_SECONDS: Final = 1.0
_SUCCESSORS: Final = {
    "get_table": ("get_table_req", "GetTableRequest", ("dbName", "tblName"), "table"),
    "get_table_objects_by_name": (
        "get_table_objects_by_name_req",
        "GetTablesRequest",
        ("dbName", "tblNames"),
        "tables",
    ),
}
"""Calls that Hive 4 does not know any more: the newer call, its request, the fields of that, and of the answer."""
_newer: set[Address] = set()
"""Metastores that have told this process that they know the newer calls alone."""
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

    @property
    def user(self) -> str:
        """Who asks, and owns what is made.

        Raises:
            HiveLoginError: there is no ticket of Kerberos.
        """
        login = self.address.login
        return _system_user() if login is None else login.user()

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

        if self.address in _newer and method in _SUCCESSORS:
            newer, request, names, answer = _SUCCESSORS[method]
            asked = getattr(records(), request)(**dict(zip(names, arguments, strict=True)))
            return getattr(self._try(newer, (asked,)), answer)
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
                if error.type == TApplicationException.UNKNOWN_METHOD and method in _SUCCESSORS:
                    _newer.add(self.address)
                    return self._try(method, arguments)
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


def _system_user() -> str:
    """Who asks, as Hadoop finds it where there is no Kerberos."""
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
        raise PaimonError(f"A Hive catalog needs the package pymetastore: {pip_command('hive')}") from None


def _connections() -> dict[Address, tuple[Any, Any]]:
    """The connections of this thread; those of a process that this one was forked from are not its own."""
    if getattr(_local, "process", None) != os.getpid():
        _local.process, _local.connections = os.getpid(), {}
    return _local.connections  # type: ignore[no-any-return]


_WANTS_MORE: Final = f" If it wants Kerberos, set '{ENABLED}' = 'true'; if it wants TLS, '{TLS}' = 'true'."
_WANTS_NO_TLS: Final = f" See that it speaks TLS, and that '{_TRUSTED}' has its certificate or that of its authority."
_WANTS_NO_SASL: Final = f" If it takes plain Thrift, remove '{ENABLED}'."
"""What the first answer that does not come may mean."""


def _connect(address: Address) -> tuple[Any, Any]:
    service = _module("pymetastore.hive_metastore.ThriftHiveMetastore")
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.Thrift import TApplicationException
    from thrift.transport.TSocket import TSocket
    from thrift.transport.TTransport import TBufferedTransport, TTransportException

    failure: Exception | None = None
    hint = ""
    for turn in range(_ROUNDS):
        if turn:
            time.sleep(_PAUSE_SECONDS)
        for host, port in address.servers:
            socket = TSocket(host, port)
            socket.setTimeout(address.timeout_seconds * 1000)
            plain = TBufferedTransport(socket)
            login = address.login
            sasl = None if login is None else SaslTransport(plain, socket, login, host, address.timeout_seconds)
            client = service.Client(TBinaryProtocol(sasl or plain))
            try:
                hint = ""
                plain.open()
                if address.uses_tls:
                    hint = _WANTS_NO_TLS
                    _speak_tls(socket, address, host)
                if sasl is None:
                    hint = _WANTS_MORE
                    with contextlib.suppress(TApplicationException, service.MetaException):  # as Java: it goes on
                        client.set_ugi(_system_user(), [])
                else:
                    hint = _WANTS_NO_SASL
                    sasl.negotiate()
            except (TTransportException, OSError, EOFError) as error:
                failure = error
                with contextlib.suppress(Exception):
                    plain.close()
            except HiveLoginError:
                plain.close()
                raise
            else:
                return client, plain
    assert failure is not None
    raise HiveGoneError(
        f"The Hive metastore {address.shown} cannot be reached: {_sentence(failure)}. See that it runs and that 'uri' "
        f"is right; then run it again.{hint}"
    )


def _sentence(error: Exception) -> str:
    text = getattr(error, "message", None) or str(error) or type(error).__name__
    return str(text).strip().splitlines()[0].rstrip(".")


_FIRST_SLEEP_SECONDS: Final = 0.05
HEARTBEAT_SECONDS: Final = 60.0
"""How often a lock that is held is kept alive: servers free it after `hive.txn.timeout`, which is 5 minutes."""


@contextlib.contextmanager
def held(client: HiveClient, options: LockOptions, database: str, name: str, beat_seconds: float) -> Iterator[None]:
    """Hold the lock of a table, or of its branch ``t$branch_b``, and keep it alive.

    Raises:
        TableBusyError: others held it for too long.
        PaimonError: the metastore cannot be reached, or takes no locks.
    """
    number = _acquired(client, options, database, name)
    ended = threading.Event()
    beats = threading.Thread(target=_keep_alive, args=(client, number, ended, beat_seconds), daemon=True)
    beats.start()
    try:
        yield
    finally:
        ended.set()
        _release(client, number, f"{database}.{name}")


def _acquired(client: HiveClient, options: LockOptions, database: str, name: str) -> int:
    """Take the lock; return its number."""
    hive, begun = records(), time.monotonic()
    number, state = _asked(client, database, name)
    sleep, is_ours = _FIRST_SLEEP_SECONDS, False
    try:
        while state == hive.LockState.WAITING and time.monotonic() - begun < options.longest_wait.total_seconds():
            sleep = min(2 * sleep, options.longest_sleep.total_seconds())
            time.sleep(sleep)
            state = client.call("check_lock", hive.CheckLockRequest(lockid=number)).state
        is_ours = state == hive.LockState.ACQUIRED
    finally:
        if not is_ours:
            _release(client, number, f"{database}.{name}")
    if is_ours:
        return number
    if state == hive.LockState.WAITING:
        raise options.busy(f"{database}.{name}")
    raise PaimonError(
        f"The lock {database}.{name} of the Hive metastore was taken from us while we waited for it (state {state}). "
        "Nothing was done; run it again."
    )


def _asked(client: HiveClient, database: str, name: str) -> tuple[int, Any]:
    """Ask for the lock; return its number and state. After a lost answer it is looked up whether it was given."""
    hive, ours = records(), f"paimon-spark {uuid.uuid4()}"
    part = hive.LockComponent(type=hive.LockType.EXCLUSIVE, level=hive.LockLevel.TABLE, dbname=database, tablename=name)
    request = hive.LockRequest(component=[part], user=client.user, hostname=socket.gethostname(), agentInfo=ours)
    try:
        answer = client.call("lock", request, once=True)
    except HiveNoAnswerError:
        known = client.call("show_locks", hive.ShowLocksRequest(dbname=database, tablename=name)).locks or ()
        found = next((each for each in known if each.agentInfo == ours), None)
        answer = client.call("lock", request) if found is None else found
    return answer.lockid, answer.state


def _keep_alive(client: HiveClient, number: int, ended: threading.Event, beat_seconds: float) -> None:
    hive = records()
    while not ended.wait(beat_seconds):
        try:
            client.call("heartbeat", hive.HeartbeatRequest(lockid=number))
        except PaimonError as error:
            if not ended.is_set():
                _LOG.warning("The lock %s of the Hive metastore was not kept alive: %s", number, error)


def _release(client: HiveClient, number: int, lock: str) -> None:
    try:
        client.call("unlock", records().UnlockRequest(lockid=number), done_by=("NoSuchLockException",))
    except PaimonError as error:
        gone = isinstance(error, HiveRefusalError) and error.kind == "NoSuchLockException"
        reason = "it had timed out before" if gone else str(error)
        _LOG.warning("The lock %s of the Hive metastore was not released: %s", lock, reason)
