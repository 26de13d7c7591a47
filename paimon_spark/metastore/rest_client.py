"""Requests to the server of a REST catalog: retries, time-outs, errors by code.

Java: ``HttpClient``, ``ExponentialHttpRequestRetryStrategy``, ``DefaultErrorHandler``, ``RESTApi``, ``ResourcePaths``.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlencode

from paimon_spark.errors import CatalogServerError, OptionError, PaimonError
from paimon_spark.metastore.rest_auth import AuthProvider, Request, auth_provider, encoded
from paimon_spark.storage.extras import pip_command
from paimon_spark.storage.store_options import redact, secret_values

_LOG = logging.getLogger(__name__)
_ROOT: Final = "/v1"
_SECONDS: Final = 180.0
"""Longest wait for a connection, and for each part of an answer; as Java's."""
_RETRIES: Final = 5
_RETRIED: Final = (429, 503)
_LONGEST_PAUSE: Final = 64
_CONNECTIONS: Final = 100
_HEADER: Final = "header."
_MOST_TEXT: Final = 1000
_REFUSALS: Final = {
    400: "refuses the request",
    401: "does not accept the credentials of the catalog ('token.provider')",
    403: "does not allow it",
    404: "does not find it",
    409: "has it already",
    429: "is asked too often",
    500: "failed",
    501: "cannot do it",
    503: "is not available",
}
_sessions: dict[tuple[int, str], Any] = {}
_configured: dict[tuple[tuple[str, str], ...], RestClient] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class RestClient:
    """A server as one catalog's options reach it. Picklable and hashable."""

    options: tuple[tuple[str, str], ...] = field(repr=False)
    """What the server's configuration makes of the catalog's options."""

    @staticmethod
    def of(options: Mapping[str, str], *, again: bool = False) -> RestClient:
        """Return the client of a catalog's options; its server is asked for its configuration once by each process.

        Args:
            options: of the catalog.
            again: ask once more, since the catalog is opened.

        Raises:
            OptionError: an option is missing or cannot be used.
            CatalogServerError: the server gives no configuration.
        """
        given = tuple(sorted(options.items()))
        with _lock:
            found = None if again else _configured.get(given)
        if found is None:
            asked = RestClient(given)
            warehouse = options.get("warehouse", "")
            config = asked.get("config", **({"warehouse": warehouse} if warehouse else {}))
            texts = [_texts(config.get(name)) for name in ("defaults", "overrides")]
            found = RestClient(tuple(sorted({**texts[0], **options, **texts[1]}.items())))
            with _lock:
                _configured[given] = found
        return found

    @property
    def uri(self) -> str:
        """Where the server is."""
        return _parts(self.options)[0]

    @property
    def prefix(self) -> str:
        """What the server wants before the names of resources; may be empty."""
        return dict(self.options).get("prefix", "")

    def get(self, *path: str, **query: str) -> dict[str, Any]:
        """Ask for something.

        Args:
            path: names, not encoded; the prefix goes before all but ``config``.
            query: parameters.

        Raises:
            CatalogServerError: no answer, or a refusal.
        """
        return self._send("GET", path, query, None)

    def post(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send something; raises as `get`."""
        return self._send("POST", path, {}, body)

    def delete(self, *path: str) -> None:
        """Remove something; raises as `get`."""
        self._send("DELETE", path, {}, None)

    def listed(self, key: str, *path: str, sparse: bool = False) -> list[Any]:
        """Everything that a list in pages has; raises as `get`.

        Args:
            key: of the answer, where the page is.
            path: names, as for `get`.
            sparse: whether pages in the middle may be empty.
        """
        found: list[Any] = []
        tokens = [""]
        while True:
            answer = self.get(*path, **({"pageToken": tokens[-1]} if tokens[-1] else {}))
            page = answer.get(key) or []
            found += page
            token = str(answer.get("nextPageToken") or "")
            if not token or not (page or sparse):
                return found
            if token in tokens:
                raise CatalogServerError(f"The REST catalog at {redact(self.uri)} gives the same page again and again.")
            tokens.append(token)

    def _send(
        self, method: str, path: tuple[str, ...], query: Mapping[str, str], body: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        uri, auth, secrets = _parts(self.options)
        names = path if path == ("config",) or not self.prefix else (self.prefix, *path)
        resource = "/".join((_ROOT, *map(encoded, names)))
        text = "" if body is None else json.dumps(body, ensure_ascii=False)
        request = Request(method, resource, query, text)
        url = f"{uri}{resource}{'?' if query else ''}{urlencode(query)}"
        headers = {key[len(_HEADER) :]: value for key, value in self.options if key.startswith(_HEADER)}

        def signed() -> dict[str, str]:
            return {**headers, **auth.headers(request)}

        server = f"The REST catalog at {redact(uri)}"
        answer = answered(server, method, url, signed, text)
        return content(server, answer, lambda found: _refusal(server, answer, found, secrets))


def answered(
    server: str, method: str, url: str, headers: Callable[[], Mapping[str, str]], text: str, *, option: str = "uri"
) -> Any:
    """The answer to a request, which is sent again where that may help.

    Args:
        server: what messages call it.
        method: of HTTP.
        url: with the parameters.
        headers: of each attempt, for a signature says when it was made.
        text: the body; empty for none.
        option: that says where the server is.

    Raises:
        CatalogServerError: there is none.
    """
    for attempt in range(_RETRIES + 1):
        answer, failure = _exchange(method, url, headers(), text)
        last = attempt == _RETRIES
        if answer is None:
            if last or not _is_passing(failure, method):
                raise CatalogServerError(f"{server} gives no answer: {_why(failure, option)}.")
            time.sleep(_pause(attempt, None))
        elif answer.status_code in _RETRIED and not last:
            _LOG.info("%s is busy (HTTP %d).", server, answer.status_code)
            time.sleep(_pause(attempt, answer.headers.get("Retry-After")))
        else:
            return answer
    raise AssertionError("unreachable")


def _exchange(method: str, url: str, headers: Mapping[str, str], text: str) -> tuple[Any, Exception | None]:
    requests = requests_package()
    with _lock:
        session = _sessions.get((os.getpid(), requests.__name__))
        if session is None:
            session = requests.Session()
            for scheme in ("http://", "https://"):
                session.mount(scheme, requests.adapters.HTTPAdapter(pool_maxsize=_CONNECTIONS))
            _sessions[os.getpid(), requests.__name__] = session
    if text:
        headers = {"Content-Type": "application/json", **headers}
    try:
        answer = session.request(
            method,
            url,
            headers=headers,
            data=text.encode() or None,
            timeout=_SECONDS,
            allow_redirects=False,  # a signature and a token are for this host alone
            auth=_as_it_is,
        )
    except requests.RequestException as error:
        return None, error
    return answer, None


def _as_it_is(request: Any) -> Any:
    """Keep the headers: `requests` would put a password of ``~/.netrc`` in place of the token."""
    return request


def requests_package() -> Any:
    """The package, which an extra brings."""
    try:
        import requests
    except ImportError:
        raise PaimonError(f"A REST catalog needs the package requests: {pip_command('rest')}") from None
    return requests


def _is_passing(failure: Exception | None, method: str) -> bool:
    """Whether a request that broke is sent again: not where the server is not there, nor where it may act twice."""
    requests = requests_package()
    if method == "POST" or isinstance(failure, requests.exceptions.SSLError | requests.exceptions.Timeout):
        return False
    cause = failure.args[0] if failure is not None and failure.args else None
    broken = isinstance(failure, requests.exceptions.ConnectionError) and type(cause).__name__ == "ProtocolError"
    return broken or isinstance(failure, requests.exceptions.ChunkedEncodingError)


def _why(failure: Exception | None, option: str) -> str:
    """Say what broke, without the address, which may hold what is secret."""
    requests = requests_package()
    if isinstance(failure, requests.exceptions.Timeout):
        return f"nothing came for {int(_SECONDS)} seconds"
    if isinstance(failure, requests.exceptions.SSLError):
        return "its certificate cannot be trusted, or it has none"
    if _is_passing(failure, "GET"):
        return "the connection broke"
    if isinstance(failure, requests.exceptions.ConnectionError):
        return f"it cannot be reached; see the option '{option}'"
    return type(failure).__name__


def _pause(attempt: int, reported: str | None) -> float:
    """Seconds to wait before the next attempt: what the server tells, or 1, 2, 4, … and up to a tenth more."""
    seconds = 0.0
    if reported:
        with contextlib.suppress(ValueError, TypeError):
            if reported.isdigit():
                seconds = float(reported)
            else:
                seconds = (parsedate_to_datetime(reported) - datetime.now(UTC)).total_seconds()
    return seconds if seconds > 0 else min(2**attempt, _LONGEST_PAUSE) * (1 + random.random() / 10)


def content(server: str, answer: Any, refusal: Callable[[dict[str, Any]], CatalogServerError]) -> dict[str, Any]:
    """What an answer holds.

    Args:
        server: what messages call it.
        answer: of `answered`.
        refusal: makes the error of what a refusal holds.

    Raises:
        CatalogServerError: it is a refusal, or no JSON.
    """
    try:
        found = answer.json() if answer.content else {}
    except ValueError:
        found = None
    if 200 <= answer.status_code < 300:
        if not isinstance(found, dict):
            raise CatalogServerError(f"{server} gives an answer that is no JSON object.")
        return found
    raise refusal(found if isinstance(found, dict) else {})


def shown_message(reported: Mapping[str, Any], secrets: tuple[str, ...]) -> str:
    """The message of a refusal, behind a colon; empty where there is none."""
    message = " ".join(str(reported.get("message") or "").split())[:_MOST_TEXT].rstrip(".")
    for secret in secrets:
        message = message.replace(secret, "***")
    return f": {message}" if message else ""


def _refusal(server: str, answer: Any, reported: dict[str, Any], secrets: tuple[str, ...]) -> CatalogServerError:
    code = reported.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else answer.status_code
    identifier = next((v for k, v in answer.headers.items() if "request-id" in k.lower()), "")
    request = f", request {identifier}" if identifier else ""
    return CatalogServerError(
        f"{server} {_REFUSALS.get(status, 'refuses')} (HTTP {status}{request}){shown_message(reported, secrets)}.",
        status,
        str(reported.get("resourceType") or "").upper(),
    )


@lru_cache(100)
def _parts(options: tuple[tuple[str, str], ...]) -> tuple[str, AuthProvider, tuple[str, ...]]:
    """Where the server is, who signs, and what is never shown."""
    given = dict(options)
    uri = given.get("uri", "").strip().removesuffix("/")
    if not uri:
        raise OptionError("A REST catalog needs the option 'uri': http://<host>:<port> of its server.")
    if not uri.startswith(("http://", "https://")):
        uri = f"http://{uri}"
    return uri, auth_provider(given, uri), secret_values(options)


def _texts(found: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in found.items() if value is not None} if found else {}
