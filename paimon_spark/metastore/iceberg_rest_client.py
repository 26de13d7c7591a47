"""Requests to an Iceberg REST catalog: its configuration, who asks, errors by code.

Java: Iceberg's ``RESTSessionCatalog`` and ``OAuth2Util``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from paimon_spark.errors import CatalogServerError, OptionError, UnsupportedError
from paimon_spark.metastore.rest_auth import encoded
from paimon_spark.metastore.rest_client import answered, content, requests_package, shown_message
from paimon_spark.storage.store_options import redact, secret_values

PREFIX: Final = "metadata.iceberg.rest."
_ROOT: Final = "v1"
_HEADER: Final = "header."
_AUTH_TYPE: Final = "rest.auth.type"
_AUTH_TYPES: Final = ("none", "basic", "oauth2")
_SIGV4: Final = "rest.sigv4-enabled"
_REGISTER: Final = "/register"
_FORM: Final = "application/x-www-form-urlencoded"
_OF_TOKEN: Final = ("audience", "resource")
_OF_AUTHORIZATION: Final = ("token", "credential", _AUTH_TYPE)


def check_settings(settings: Mapping[str, str]) -> None:
    """Refuse settings by which no catalog can be reached; no request is made.

    Args:
        settings: of the catalog, without `PREFIX`.

    Raises:
        OptionError: one is missing.
        UnsupportedError: it wants another proof of who asks than this client has.
        PaimonError: the extra is not installed.
    """
    if not settings.get("uri", "").strip():
        raise OptionError(
            f"'metadata.iceberg.storage' = 'rest-catalog' needs the option '{PREFIX}uri': http://<host>:<port> of the "
            "Iceberg REST catalog."
        )
    kind = settings.get(_AUTH_TYPE, "").strip().lower()
    if (kind and kind not in _AUTH_TYPES) or settings.get(_SIGV4, "").strip().lower() == "true":
        key, value = (_AUTH_TYPE, settings[_AUTH_TYPE]) if kind else (_SIGV4, "true")
        raise UnsupportedError(
            f"Option '{PREFIX}{key}' = '{value}' is not supported: an Iceberg REST catalog can be asked with "
            f"'{PREFIX}token', '{PREFIX}credential', or '{PREFIX}{_AUTH_TYPE}' = 'basic'. Write this table with "
            "another Paimon engine, or publish it to a catalog that takes one of these."
        )
    requests_package()


class IcebergRestClient:
    """A catalog; it is asked for its configuration once."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._secrets = secret_values(settings.items())
        self._settings = dict(settings)
        self._authorization = self._of_settings()
        warehouse = settings.get("warehouse")
        config = self._send("GET", ["config"], {"warehouse": warehouse} if warehouse else {}, None)
        defaults, overrides = (
            {str(key): str(value) for key, value in (config.get(name) or {}).items() if value is not None}
            for name in ("defaults", "overrides")
        )
        self._settings = {**defaults, **settings, **overrides}
        self._secrets = (*self._secrets, *secret_values(self._settings.items()))
        if any(self._settings.get(key) != settings.get(key) for key in _OF_AUTHORIZATION):
            self._authorization = self._of_settings()
        endpoints = config.get("endpoints")
        self.can_register: Final = not endpoints or any(str(each).endswith(_REGISTER) for each in endpoints)
        """Whether the catalog says that it takes tables whose metadata is there already, or says nothing."""

    @property
    def _uri(self) -> str:
        uri = self._settings["uri"].strip().rstrip("/")
        return uri if uri.startswith(("http://", "https://")) else f"http://{uri}"

    @property
    def server(self) -> str:
        """What messages call it."""
        return f"The Iceberg REST catalog at {redact(self._uri)}"

    def get(self, *path: str) -> dict[str, Any] | None:
        """Ask for something; None where it is not there.

        Args:
            path: names, not encoded.

        Raises:
            CatalogServerError: no answer, or a refusal.
        """
        try:
            return self._send("GET", self._prefixed(path), {}, None)
        except CatalogServerError as error:
            if error.status == 404:
                return None
            raise

    def post(self, *path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send something; raises as `get`."""
        return self._send("POST", self._prefixed(path), {}, body)

    def delete(self, *path: str, **query: str) -> None:
        """Remove something; raises as `get`."""
        self._send("DELETE", self._prefixed(path), query, None)

    def _prefixed(self, path: tuple[str, ...]) -> list[str]:
        prefix = self._settings.get("prefix", "")
        return [*filter(None, prefix.split("/")), *path]

    def _send(
        self, method: str, path: list[str], query: Mapping[str, str], body: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        url = "/".join((self._uri, _ROOT, *map(encoded, path))) + ("?" if query else "") + urlencode(query)
        text = "" if body is None else json.dumps(body, ensure_ascii=False)
        headers = {key[len(_HEADER) :]: value for key, value in self._settings.items() if key.startswith(_HEADER)}
        return self._exchanged(method, url, {**headers, **self._authorization}, text)

    def _exchanged(self, method: str, url: str, headers: Mapping[str, str], text: str) -> dict[str, Any]:
        answer = answered(self.server, method, url, lambda: headers, text, option=f"{PREFIX}uri")
        return content(self.server, answer, lambda found: self._refusal(answer, found))

    def _refusal(self, answer: Any, found: dict[str, Any]) -> CatalogServerError:
        error = found.get("error")
        reported = error if isinstance(error, dict) else {}
        return CatalogServerError(
            f"{self.server} refuses the request (HTTP {answer.status_code}){shown_message(reported, self._secrets)}.",
            answer.status_code,
            str(reported.get("type") or ""),
        )

    def _of_settings(self) -> dict[str, str]:
        """The header that says who asks; empty where none is wanted."""
        given = self._settings
        kind = given.get(_AUTH_TYPE, "").strip().lower()
        if kind == "none":
            return {}
        if kind == "basic":
            user, password = (given.get(f"rest.auth.basic.{name}", "") for name in ("username", "password"))
            return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}
        token = given.get("token") or (self._token(given["credential"]) if given.get("credential") else "")
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _token(self, credential: str) -> str:
        """Let the catalog, or whom it trusts, give a token for a client's id and secret."""
        given = self._settings
        before, colon, after = credential.partition(":")
        form = {"grant_type": "client_credentials", "scope": given.get("scope") or "catalog"}
        form |= {"client_id": before, "client_secret": after} if colon else {"client_secret": before}
        form |= {key: given[key] for key in _OF_TOKEN if given.get(key)}
        url = given.get("oauth2-server-uri") or f"{self._uri}/{_ROOT}/oauth/tokens"
        if not url.startswith(("http://", "https://")):
            url = f"{self._uri}/{url.lstrip('/')}"
        found = self._exchanged("POST", url, {"Content-Type": _FORM}, urlencode(form)).get("access_token")
        if not isinstance(found, str) or not found:
            raise CatalogServerError(f"{self.server} gives no token for '{PREFIX}credential'.")
        self._secrets = (*self._secrets, found)
        return found
