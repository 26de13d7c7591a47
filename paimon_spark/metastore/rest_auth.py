"""Headers by which a request shows a REST server who asks: a bearer token, or a signature of Alibaba's DLF.

Java: ``BearTokenAuthProvider``, ``DLFAuthProvider``, ``DLFDefaultSigner``, ``DLFOpenApiSigner`` and the token loaders.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote_plus, unquote_plus

from paimon_spark.errors import OptionError, PaimonError

EXPIRY_MARGIN_SECONDS: Final = 3600.0
"""A token that ends sooner is renewed before it is used (``RESTApi.TOKEN_EXPIRATION_SAFE_TIME_MILLIS``)."""
_PRODUCT: Final = "DlfNext"
_REQUEST: Final = "aliyun_v4_request"
_ALGORITHM: Final = "DLF4-HMAC-SHA256"
_UNSIGNED: Final = "UNSIGNED-PAYLOAD"
_JSON: Final = "application/json"
_SIGNED: Final = ("content-md5", "content-type", "x-dlf-content-sha256", "x-dlf-date", "x-dlf-version")
_SECURITY: Final = "x-dlf-security-token"
_REGION: Final = re.compile(r"(?:pre-)?([a-z]+-[a-z]+(?:-\d+)?)")
_API_VERSION: Final = "2026-01-18"
_FILE_ATTEMPTS: Final = 5
_METADATA: Final = "http://100.100.100.200/latest/meta-data/Ram/security-credentials/"
_METADATA_SECONDS: Final = 20.0


@dataclass(frozen=True)
class Request:
    """What of a request is signed."""

    method: str
    path: str
    """From ``/v1`` on, encoded."""
    query: Mapping[str, str]
    """Not encoded."""
    body: str
    """Empty where there is none."""


class AuthProvider(Protocol):
    """Knows who asks."""

    def headers(self, request: Request) -> dict[str, str]:
        """Headers of a request."""


@dataclass(frozen=True)
class BearerAuth:
    """One token for all requests."""

    token: str = field(repr=False)

    def headers(self, request: Request) -> dict[str, str]:
        """Headers of a request."""
        return {"Authorization": f"Bearer {self.token}"}


@dataclass(frozen=True)
class DlfToken:
    """A key of Alibaba's, which may end."""

    access_key_id: str
    access_key_secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)
    ends_at: float | None = None
    """Seconds since 1970; None for never."""

    @staticmethod
    def of(text: str, source: str) -> DlfToken:
        """Return the token in a JSON text.

        Raises:
            PaimonError: it is none; the message does not show it.
        """
        try:
            found: dict[str, Any] = json.loads(text)
            expiration = found.get("Expiration")
            ends = None
            if expiration is not None:
                ends = datetime.strptime(expiration, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
            return DlfToken(found["AccessKeyId"], found["AccessKeySecret"], found.get("SecurityToken"), ends)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise PaimonError(
                f"The token of the REST catalog cannot be read: {source} holds no JSON with AccessKeyId and "
                "AccessKeySecret."
            ) from None


class TokenSource(Protocol):
    """Where tokens that end come from."""

    def load(self) -> DlfToken:
        """Get a new one."""


@dataclass(frozen=True)
class TokenFile:
    """A file that somebody writes anew before its token ends (``DLFLocalFileTokenLoader``)."""

    path: str

    def load(self) -> DlfToken:
        """Read the file; one that is just being written is read again."""
        for attempt in range(1, _FILE_ATTEMPTS + 1):
            try:
                return DlfToken.of(Path(self.path).read_text(encoding="utf-8"), self.path)
            except (OSError, PaimonError) as error:
                if attempt == _FILE_ATTEMPTS:
                    if isinstance(error, PaimonError):
                        raise
                    raise PaimonError(
                        f"The token of the REST catalog cannot be read from {self.path} ('dlf.token-path'): "
                        f"{error.strerror or error}."
                    ) from None
                time.sleep(0.2 * attempt)
        raise AssertionError("unreachable")


@dataclass(frozen=True)
class EcsRole:
    """The role of a machine of Alibaba's, found at the address of its metadata (``DLFECSTokenLoader``)."""

    url: str
    role: str | None = None

    def load(self) -> DlfToken:
        """Ask for the role's token."""
        role = self.role or self._text(self.url).strip()
        return DlfToken.of(self._text(f"{self.url}{role}"), self.url)

    def _text(self, url: str) -> str:
        import requests  # of the extra `rest`

        try:
            answer = requests.get(url, timeout=_METADATA_SECONDS, allow_redirects=False)
        except requests.RequestException as error:
            raise PaimonError(
                f"The machine's metadata at {self.url} ('dlf.token-ecs-metadata-url') give no answer: "
                f"{type(error).__name__}."
            ) from None
        if answer.status_code != 200:
            raise PaimonError(
                f"The machine's metadata at {self.url} ('dlf.token-ecs-metadata-url') have no token: HTTP "
                f"{answer.status_code}."
            )
        return answer.text


_tokens: dict[TokenSource, DlfToken] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class DlfAuth:
    """Signs requests with a key of Alibaba's."""

    source: TokenSource | DlfToken
    host: str
    region: str
    algorithm: str

    def headers(self, request: Request) -> dict[str, str]:
        """Headers of a request."""
        token, now = self._token(), datetime.now(UTC)
        if self.algorithm == "openapi":
            return openapi_headers(request, token, self.host, now, f"{uuid.uuid4()}{time.time_ns() // 1_000_000}")
        return default_headers(request, token, self.region, now)

    def _token(self) -> DlfToken:
        if isinstance(self.source, DlfToken):
            return self.source
        with _lock:
            token = _tokens.get(self.source)
            if token is None or (token.ends_at is not None and token.ends_at - time.time() < EXPIRY_MARGIN_SECONDS):
                token = _tokens[self.source] = self.source.load()
        return token


def default_headers(request: Request, token: DlfToken, region: str, now: datetime) -> dict[str, str]:
    """Sign as `DLFDefaultSigner` does."""
    when, date = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    headers = {"x-dlf-date": when, "x-dlf-content-sha256": _UNSIGNED, "x-dlf-version": "v1"}
    if request.body:
        headers["Content-Type"] = _JSON
        headers["Content-MD5"] = _md5(request.body)
    if token.security_token is not None:
        headers[_SECURITY] = token.security_token
    lowered = {key.lower(): value.strip() for key, value in headers.items()}
    signed = [f"{key}:{lowered[key]}" for key in sorted((*_SIGNED, _SECURITY)) if key in lowered]
    query = "&".join(
        f"{key.strip()}={encoded(value)}" if value else key.strip() for key, value in sorted(request.query.items())
    )
    canonical = "\n".join((request.method, request.path, query, *signed, _UNSIGNED))
    scope = f"{date}/{region}/{_PRODUCT}/{_REQUEST}"
    text = "\n".join((_ALGORITHM, when, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = f"aliyun_v4{token.access_key_secret}".encode()
    for part in (date, region, _PRODUCT, _REQUEST):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    authorization = f"{_ALGORITHM} Credential={token.access_key_id}/{scope},Signature={signature}"
    return {**headers, "Authorization": authorization}


def openapi_headers(request: Request, token: DlfToken, host: str, now: datetime, nonce: str) -> dict[str, str]:
    """Sign as `DLFOpenApiSigner` does."""
    headers = {"Date": now.strftime("%a, %d %b %Y %H:%M:%S GMT"), "Accept": _JSON, "Host": host}
    if request.body:
        headers["Content-MD5"] = _md5(request.body)
        headers["Content-Type"] = _JSON
    headers |= {
        "x-acs-signature-method": "HMAC-SHA1",
        "x-acs-signature-nonce": nonce,
        "x-acs-signature-version": "1.0",
        "x-acs-version": _API_VERSION,
    }
    if token.security_token is not None:
        headers["x-acs-security-token"] = token.security_token
    own = "".join(f"{key}:{value.strip()}\n" for key, value in sorted(headers.items()) if key.startswith("x-acs-"))
    resource = unquote_plus(request.path)
    if request.query:
        pairs = sorted(request.query.items())
        resource += "?" + "&".join(f"{key}={value}" if value else key for key, value in pairs)
    parts = (request.method, _JSON, headers.get("Content-MD5", ""), headers.get("Content-Type", ""), headers["Date"])
    text = "\n".join(parts) + "\n" + own + resource
    signature = base64.b64encode(hmac.digest(token.access_key_secret.encode(), text.encode(), "sha1")).decode()
    return {**headers, "Authorization": f"acs {token.access_key_id}:{signature}"}


def auth_provider(options: Mapping[str, str], uri: str) -> AuthProvider:
    """Return who signs the requests of a catalog.

    Raises:
        OptionError: the options name nobody, or lack something.
    """
    kind = options.get("token.provider", "").strip()
    if kind == "bear":
        if not options.get("token"):
            raise OptionError("A REST catalog with 'token.provider' = 'bear' needs the option 'token'.")
        return BearerAuth(options["token"])
    if kind == "dlf":
        return _dlf(options, uri)
    raise OptionError(
        f"A REST catalog needs the option 'token.provider': 'bear' or 'dlf'{f', not {kind!r}' if kind else ''}."
    )


def _dlf(options: Mapping[str, str], uri: str) -> DlfAuth:
    region = options.get("dlf.region") or next(iter(_REGION.findall(uri)), "")
    if not region:
        raise OptionError("The region cannot be taken from the catalog's 'uri': set the option 'dlf.region'.")
    algorithm = options.get("dlf.signing-algorithm") or ("openapi" if "dlfnext" in uri.lower() else "default")
    if algorithm not in ("default", "openapi"):
        raise OptionError(f"'dlf.signing-algorithm' = '{algorithm}' is unknown: it is 'default' or 'openapi'.")
    host = re.sub(r"^https?://", "", uri).partition("/")[0]
    return DlfAuth(_token_source(options), host, region, algorithm)


def _token_source(options: Mapping[str, str]) -> TokenSource | DlfToken:
    loader = options.get("dlf.token-loader", "")
    path = options.get("dlf.token-path", "")
    if loader == "ecs":
        url = options.get("dlf.token-ecs-metadata-url") or _METADATA
        return EcsRole(url, options.get("dlf.token-ecs-role-name"))
    if loader not in ("", "local_file"):
        raise OptionError(f"'dlf.token-loader' = '{loader}' is not supported: it is 'local_file' or 'ecs'.")
    if loader and not path:
        raise OptionError("'dlf.token-loader' = 'local_file' needs the option 'dlf.token-path'.")
    if path:
        return TokenFile(path)
    key, secret = options.get("dlf.access-key-id"), options.get("dlf.access-key-secret")
    if not key or not secret:
        raise OptionError(
            "A REST catalog with 'token.provider' = 'dlf' needs 'dlf.token-path', 'dlf.token-loader', or both "
            "'dlf.access-key-id' and 'dlf.access-key-secret'."
        )
    return DlfToken(key, secret, options.get("dlf.security-token"))


def encoded(name: str) -> str:
    """A name in a path, or a value, as Java's ``URLEncoder`` writes it."""
    return quote_plus(name, safe="*").replace("~", "%7E")


def _md5(text: str) -> str:
    return base64.b64encode(hashlib.md5(text.encode(), usedforsecurity=False).digest()).decode()
