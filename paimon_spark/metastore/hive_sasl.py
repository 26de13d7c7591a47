"""Kerberos for a Hive metastore: who asks, and Thrift's SASL transport over GSSAPI (RFC 4752).

Options are those of Java: ``SecurityConfiguration``, and ``HiveMetaStoreClient``'s of ``hive-site.xml``. Tickets come
from MIT Kerberos or Heimdal by the package gssapi, whose settings are ``krb5.conf``, ``KRB5_CONFIG``, ``KRB5CCNAME``.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from typing import Any, Final, NoReturn

from paimon_spark.errors import OptionError, PaimonError
from paimon_spark.storage.extras import pip_command

ENABLED: Final = "hive.metastore.sasl.enabled"
_SERVICE: Final = "hive.metastore.kerberos.principal"
_PRINCIPAL: Final = "security.kerberos.login.principal"
_KEYTAB: Final = "security.kerberos.login.keytab"
_TICKET_CACHE: Final = "security.kerberos.login.use-ticket-cache"
_LAYERS: Final = {"auth": 1, "auth-int": 2, "auth-conf": 4}
"""What protects messages after the negotiation, and its bit: nothing, a check sum, encryption."""
_LAYERS_OF_HADOOP: Final = {"authentication": "auth", "integrity": "auth-int", "privacy": "auth-conf"}
_LAYER_KEYS: Final = ("hive.metastore.thrift.sasl.qop", "hadoop.rpc.protection")
NEGOTIATION_SECONDS: Final = 20.0
"""So long the metastore may take for a step: one that takes plain Thrift never answers."""
_NO_KEY: Final = "No credentials cache found"
"""What MIT's library says where the keytab leads to no ticket: it has looked into its own cache of them, too."""
_MECHANISM: Final = b"GSSAPI"
_START, _OK, _COMPLETE = 1, 2, 5
_MOST_STEPS: Final = 16
_MOST_BYTES_OF_A_STEP: Final = 1 << 20
_MOST_BYTES_OF_A_FRAME: Final = (1 << 31) - 1
_OURS_BYTES: Final = 0xFFFFFF
"""The longest message that the server may send protected: as long as three bytes can say."""


class HiveLoginError(PaimonError):
    """Kerberos gives no access to the metastore; to ask once more changes nothing."""


@dataclass(frozen=True)
class KerberosLogin:
    """Who asks a metastore, and which service it has to be. Picklable: it holds no ticket."""

    service: str
    """The metastore's principal, ``_HOST`` standing for the host."""
    principal: str | None
    """Whose keytab it is; None where tickets are taken from the ticket cache."""
    keytab: str | None
    layers: tuple[str, ...]
    """Which protections of messages may be agreed on, the preferred one first."""

    @staticmethod
    def of(settings: Mapping[str, str]) -> KerberosLogin | None:
        """Return the login of a client's settings; None where its metastore wants none. No request is made.

        Raises:
            OptionError: the principal of the metastore is missing, or of the login one option without the other one.
        """
        if settings.get(ENABLED, "").strip().lower() != "true":
            return None
        service = settings.get(_SERVICE, "").strip()
        name, _, rest = service.partition("/")
        host, _, realm = rest.partition("@")
        if not (name and host and realm):
            raise OptionError(
                f"'{ENABLED}' = 'true' needs the principal of the metastore in '{_SERVICE}', like "
                f"hive/_HOST@EXAMPLE.COM: it is '{service}'."
            )
        principal, keytab = (_login_option(settings, name) for name in (_PRINCIPAL, _KEYTAB))
        if (principal is None) != (keytab is None):
            raise OptionError(f"Set both of '{_PRINCIPAL}' and '{_KEYTAB}', or none of them.")
        if keytab is None and settings.get(_TICKET_CACHE, "").strip().lower() == "false":
            raise OptionError(
                f"'{_TICKET_CACHE}' = 'false' leaves no way to log in: set '{_PRINCIPAL}' and '{_KEYTAB}'."
            )
        return KerberosLogin(service, principal, keytab, _layers(settings))

    def user(self) -> str:
        """The short name of who asks, which becomes the owner of what is made.

        Raises:
            HiveLoginError: there is no ticket.
        """
        return str(self.principal or self._credentials().name).partition("@")[0].partition("/")[0]

    def context(self, host: str) -> Any:
        """The security context of a new connection, with tickets that are valid now.

        Raises:
            HiveLoginError: there are none.
        """
        gssapi = _gssapi()
        service = gssapi.Name(self._service_at(host), gssapi.NameType.kerberos_principal)
        flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
        flags |= gssapi.RequirementFlag.confidentiality | gssapi.RequirementFlag.out_of_sequence_detection
        return gssapi.SecurityContext(
            name=service, creds=self._credentials(), flags=flags, mech=gssapi.MechType.kerberos, usage="initiate"
        )

    def _service_at(self, host: str) -> str:
        return self.service.replace("/_HOST@", f"/{host.lower()}@")

    def _credentials(self) -> Any:
        """Tickets of the cache, or of the keytab: the library asks for new ones when those it has grow old."""
        gssapi = _gssapi()
        try:
            if self.keytab is None:
                found = gssapi.Credentials(usage="initiate", mechs=[gssapi.MechType.kerberos])
            else:
                if not (os.path.isfile(self.keytab) and os.access(self.keytab, os.R_OK)):
                    raise HiveLoginError(f"'{_KEYTAB}' = '{self.keytab}' is no file that can be read here.")
                name = gssapi.Name(self.principal, gssapi.NameType.kerberos_principal)
                memory = sha256(f"{self.principal} {self.keytab}".encode()).hexdigest()[:16]
                store = {"client_keytab": f"FILE:{self.keytab}", "ccache": f"MEMORY:paimon-spark-{memory}"}
                found = gssapi.Credentials(name=name, usage="initiate", mechs=[gssapi.MechType.kerberos], store=store)
            if not found.lifetime:
                self._no_ticket("it has expired")
        except gssapi.exceptions.ExpiredCredentialsError:
            self._no_ticket("it has expired")
        except gssapi.exceptions.GSSError as error:
            self._no_ticket(reason_of(error))
        return found

    def _no_ticket(self, reason: str) -> NoReturn:
        if self.keytab is None:
            raise HiveLoginError(
                f"There is no Kerberos ticket for the Hive metastore ({reason}). Run kinit, or set "
                f"'{_PRINCIPAL}' and '{_KEYTAB}'."
            ) from None
        raise HiveLoginError(
            f"The keytab {self.keytab} gives {self.principal} no Kerberos ticket: {reason}. See that both belong "
            "together and that the KDC of krb5.conf runs."
        ) from None

    def refused(self, host: str, error: Any) -> HiveLoginError:
        """What to say where the two sides do not agree."""
        return HiveLoginError(
            f"Kerberos gives {self.principal or 'the ticket'} no access to the metastore "
            f"{self._service_at(host)}: {reason_of(error)}. See that '{_SERVICE}' is the principal that it runs as."
        )


def _login_option(settings: Mapping[str, str], name: str) -> str | None:
    """Who logs in, or with what; by the older key too, as Java reads it."""
    older = f"security.{name.rpartition('.')[2]}"
    return settings.get(name, "").strip() or settings.get(older, "").strip() or None


def _layers(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Those that a setting names; where none does, whichever the server offers, the cheapest first.

    # Java: without a setting, ``auth`` alone.
    """
    for key in _LAYER_KEYS:
        named = [part.strip().lower() for part in settings.get(key, "").split(",") if part.strip()]
        found = tuple(_LAYERS_OF_HADOOP.get(each, each) for each in named)
        if not set(found) <= set(_LAYERS):
            raise OptionError(
                f"'{key}' = '{settings[key]}': values are {', '.join(_LAYERS)}, or those of Hadoop, "
                f"{', '.join(_LAYERS_OF_HADOOP)}."
            )
        if found:
            return found
    return tuple(_LAYERS)


def _gssapi() -> Any:
    try:
        return import_module("gssapi")
    except ImportError:  # the package, or the library of Kerberos that it calls
        raise PaimonError(
            f"A Hive metastore with Kerberos needs the package gssapi: {pip_command('hive-kerberos')}"
        ) from None


def reason_of(error: Any) -> str:
    """Kerberos' own words for an error of GSSAPI, without the latter's, which are the same for most of them."""
    minor = [text for text in error.get_all_statuses(error.min_code, False) if text]
    found = str((minor or [error])[-1]).strip().splitlines()[0].rstrip(".")
    return "it has no key of that principal" if found == _NO_KEY else found


class SaslTransport:
    """Thrift's SASL transport: a negotiation, then frames. Called by Thrift's protocol, so names are Thrift's.

    Args:
        transport: of Thrift, below this one, which is opened and closed by itself.
        socket: of Thrift, below that one, whose time-out is set.
        login: who asks.
        host: of the metastore.
        timeout_seconds: how long the answer to a call may take.
    """

    def __init__(self, transport: Any, socket: Any, login: KerberosLogin, host: str, timeout_seconds: float) -> None:
        self._transport = transport
        self._socket = socket
        self._login = login
        self._host = host
        self._timeout_seconds = timeout_seconds
        self._context: Any = None
        self._layer = "auth"
        self._most_bytes = 0
        self._written: list[bytes] = []
        self._read = memoryview(b"")

    def negotiate(self) -> None:
        """Let the metastore know who asks, and see that it is the one that it has to be.

        Raises:
            HiveLoginError: Kerberos gives no access.
            OSError: the metastore does not negotiate.
        """
        self._context = self._login.context(self._host)
        errors = _gssapi().exceptions.GSSError
        try:
            first = self._context.step()
        except errors as error:
            raise self._login.refused(self._host, error) from None
        self._socket.setTimeout(1000 * min(NEGOTIATION_SECONDS, self._timeout_seconds))
        try:
            self._send(_START, _MECHANISM)
            self._send(_OK, first)
            for _ in range(_MOST_STEPS):
                status, token = self._received()
                if status == _COMPLETE:
                    break
                self._send(_OK, self._answer(token))
            else:
                raise HiveLoginError("The Hive metastore does not come to an end with the SASL negotiation.")
        except errors as error:
            raise self._login.refused(self._host, error) from None
        self._socket.setTimeout(1000 * self._timeout_seconds)

    def _answer(self, token: bytes) -> bytes:
        if not self._context.complete:
            return self._context.step(token) or b""
        return self._agreed(token)

    def _agreed(self, token: bytes) -> bytes:
        """Choose one of the layers that the server offers (RFC 4752, 3.1)."""
        offer = self._context.unwrap(token).message
        if len(offer) != 4:
            raise HiveLoginError("The Hive metastore offers no protection layer in the SASL negotiation.")
        offered = [name for name, bit in _LAYERS.items() if offer[0] & bit]
        chosen = next((name for name in self._login.layers if name in offered), None)
        if chosen is None:
            raise HiveLoginError(
                f"The Hive metastore offers the SASL protection {' or '.join(offered) or 'none'}, and "
                f"'{_LAYER_KEYS[0]}' allows {' or '.join(self._login.layers)} only. Set it as on the metastore."
            )
        self._layer, self._most_bytes = chosen, int.from_bytes(offer[1:], "big")
        ours = 0 if chosen == "auth" else _OURS_BYTES
        answer = bytes([_LAYERS[chosen]]) + ours.to_bytes(3, "big")
        return bytes(self._context.wrap(answer, False).message)

    def _send(self, status: int, body: bytes | None) -> None:
        self._transport.write(struct.pack(">BI", status, len(body or b"")) + (body or b""))
        self._transport.flush()

    def _received(self) -> tuple[int, bytes]:
        status, length = struct.unpack(">BI", self._transport.readAll(5))
        if status not in (_OK, _COMPLETE, 3, 4) or length > _MOST_BYTES_OF_A_STEP:
            raise OSError("it does not negotiate by SASL")
        body = self._transport.readAll(length) if length else b""
        if status not in (_OK, _COMPLETE):
            raise HiveLoginError(
                f"The Hive metastore at {self._host} refuses the Kerberos login: "
                f"{body.decode('utf-8', 'replace').strip().rstrip('.')}. See that '{_SERVICE}' is the principal that "
                "it runs as."
            )
        return status, body

    def readAll(self, size: int) -> bytes:  # noqa: N802
        """Bytes of the answer, out of as many frames as they take."""
        found = bytearray()
        while len(found) < size:
            if not self._read:
                self._read = memoryview(self._frame())
            part = self._read[: size - len(found)]
            self._read = self._read[len(part) :]
            found += part
        return bytes(found)

    def _frame(self) -> bytes:
        (length,) = struct.unpack(">I", self._transport.readAll(4))
        if length > _MOST_BYTES_OF_A_FRAME:
            raise OSError(f"the answer has a frame of {length} bytes")
        body: bytes = self._transport.readAll(length)
        if self._layer == "auth":
            return body
        try:
            return bytes(self._context.unwrap(body).message)
        except _gssapi().exceptions.GSSError as error:
            raise OSError(reason_of(error)) from None  # the tickets of the connection are too old, or it was forged

    def write(self, data: bytes) -> None:
        """Add to the call."""
        self._written.append(data)

    def flush(self) -> None:
        """Send the call, in frames that the server can take."""
        data, self._written = b"".join(self._written), []
        is_secret = self._layer == "auth-conf"
        if self._layer == "auth":
            self._transport.write(struct.pack(">I", len(data)) + data)
        else:
            try:
                most = self._context.get_wrap_size_limit(self._most_bytes, is_secret)
                for begin in range(0, len(data), most):
                    sent = self._context.wrap(data[begin : begin + most], is_secret).message
                    self._transport.write(struct.pack(">I", len(sent)) + sent)
            except _gssapi().exceptions.GSSError as error:
                raise OSError(reason_of(error)) from None
        self._transport.flush()
