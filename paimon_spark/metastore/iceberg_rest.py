"""The table of an Iceberg REST catalog by which Iceberg's readers find a table of Paimon, and requests to the catalog.

Equals Java's ``IcebergRestMetadataCommitter``, but for what is marked ``# Java:``; of requests (configuration, who
asks, errors by code) Iceberg's ``RESTSessionCatalog`` and ``OAuth2Util``.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from paimon_spark.errors import CatalogServerError, OptionError, UnsupportedError
from paimon_spark.metastore.rest_auth import encoded
from paimon_spark.metastore.rest_client import answered, content, requests_package, shown_message
from paimon_spark.spec.iceberg.catalog_updates import (
    RESERVED_PROPERTIES,
    adjusted,
    is_ours,
    needs_registration,
    new_table,
    requirements_of,
    updates_of,
)
from paimon_spark.storage.store_options import redact, secret_values

if TYPE_CHECKING:
    from paimon_spark.spec.iceberg.metadata import IcebergMetadata
    from paimon_spark.spec.iceberg.types import Json

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


_DATABASE: Final = "metadata.iceberg.database"
_TABLE: Final = "metadata.iceberg.table"
_PROPERTIES: Final = "metadata.iceberg.table-properties."
_CONFLICT: Final = 409
_NEEDED: Final[Mapping[str, type]] = {
    "format-version": int,
    "table-uuid": str,
    "schemas": list,
    "current-schema-id": int,
    "partition-specs": list,
}
"""Of the metadata of a table in a catalog."""


@dataclass(frozen=True)
class IcebergRest:
    """Where a table is in the catalog."""

    settings: Mapping[str, str] = field(repr=False)
    database: str
    table: str
    properties: Mapping[str, str]
    """That the table has there."""

    @staticmethod
    def of(options: Mapping[str, str], database: str, table: str, kept: tuple[int, bool]) -> IcebergRest:
        """Return the place of a table; no request is made.

        Args:
            options: of the table.
            database: name of the table's database, where no option names another one.
            table: its name, where no option names another one.
            kept: how many earlier metadata files the catalog keeps, and whether it deletes the others.

        Raises:
            OptionError: an option is missing.
            UnsupportedError: an option cannot be obeyed.
            PaimonError: the extra is not installed.
        """
        settings = _behind(PREFIX, options)
        check_settings(settings)
        if ";" in options.get(_DATABASE, ""):
            raise UnsupportedError(
                f"Option '{_DATABASE}' = '{options[_DATABASE]}' is not supported: a table is in one database of an "
                "Iceberg REST catalog. Name one."
            )
        own = {key: value for key, value in _behind(_PROPERTIES, options).items() if key not in RESERVED_PROPERTIES}
        properties = {
            "write.metadata.previous-versions-max": str(kept[0]),
            "write.metadata.delete-after-commit.enabled": str(kept[1]).lower(),
            **own,
        }
        return IcebergRest(
            settings, options.get(_DATABASE, "").strip() or database, options.get(_TABLE) or table, properties
        )

    def enter(
        self,
        metadata: IcebergMetadata,
        before: IcebergMetadata | None,
        write: Callable[[bytes], str],
        is_latest: Callable[[], bool],
    ) -> None:
        """Bring the catalog's table to the state of metadata; what is not there is made.

        Args:
            metadata: of the latest snapshot.
            before: that was gone on with; None where `metadata` was made of all files anew.
            write: puts metadata into a new file, and returns its path.
            is_latest: whether no other snapshot has come meanwhile.

        Raises:
            PaimonError: the catalog cannot be reached, or refuses; or another table has the name (# Java: it is
                dropped).
        """
        catalog = IcebergRestClient(self.settings)
        wanted = adjusted(metadata, time.time_ns() // 1_000_000)
        found = self._found(catalog)
        if found is not None and not is_ours(found, wanted):
            raise UnsupportedError(
                f"{catalog.server} has another table {self.database}.{self.table}, which this one would replace. "
                f"Give this one another name with '{_DATABASE}' or '{_TABLE}'."
            )
        updates = None if found is None else updates_of(found, wanted, before, self.properties)
        if updates is None:
            if not is_latest():
                return
            if needs_registration(wanted):
                self._register(catalog, wanted, write, replaces=found is not None)
                return
            if found is not None:
                self._drop(catalog)
            found = self._created(catalog, wanted)
            updates = updates_of(found, wanted, before, self.properties)
        if updates:
            body = {
                "identifier": {"namespace": [self.database], "name": self.table},
                "requirements": requirements_of(found or {}),
                "updates": updates,
            }
            catalog.post(*self._path, body=body)

    @property
    def _path(self) -> tuple[str, ...]:
        return "namespaces", self.database, "tables", self.table

    def _found(self, catalog: IcebergRestClient) -> Json | None:
        found = catalog.get(*self._path)
        return None if found is None else _metadata(catalog, found)

    def _drop(self, catalog: IcebergRestClient) -> None:
        catalog.delete(*self._path, purgeRequested="false")  # the files are Paimon's

    def _make_database(self, catalog: IcebergRestClient) -> None:
        if catalog.get("namespaces", self.database) is None:
            try:
                catalog.post("namespaces", body={"namespace": [self.database], "properties": {}})
            except CatalogServerError as error:
                if error.status != _CONFLICT:  # another commit was faster
                    raise

    def _created(self, catalog: IcebergRestClient, wanted: Json) -> Json:
        self._make_database(catalog)
        path = "namespaces", self.database, "tables"
        request = new_table(wanted, self.table)
        try:
            found = catalog.post(*path, body=request)
        except CatalogServerError as error:
            if error.status in (0, _CONFLICT):
                raise
            # some catalogs choose no location, and others take none
            try:
                found = catalog.post(*path, body={**request, "location": _for_catalogs(wanted["location"])})
            except CatalogServerError:
                raise error from None
        return _metadata(catalog, found)

    def _register(
        self, catalog: IcebergRestClient, wanted: Json, write: Callable[[bytes], str], *, replaces: bool
    ) -> None:
        """Make the catalog's state that of a metadata file; nothing is dropped where the catalog cannot do that."""
        if not catalog.can_register:
            raise UnsupportedError(_cannot_register(catalog, self))
        if not replaces:
            self._make_database(catalog)
        path = "namespaces", self.database, "register"
        body = {"name": self.table, "metadata-location": write(json.dumps(wanted, ensure_ascii=False).encode())}
        if replaces:
            try:
                found = catalog.post(*path, body=body)
            except CatalogServerError as error:
                if error.status != _CONFLICT:
                    raise UnsupportedError(f"{_cannot_register(catalog, self)} {error}") from None
                self._drop(catalog)
                found = catalog.post(*path, body=body)
        else:
            found = catalog.post(*path, body=body)
        registered = _metadata(catalog, found).get("current-snapshot-id")
        if registered != wanted["current-snapshot-id"]:
            raise CatalogServerError(
                f"{catalog.server} shows snapshot {registered} of {self.database}.{self.table}, and not snapshot "
                f"{wanted['current-snapshot-id']}, which was registered."
            )


def _behind(prefix: str, options: Mapping[str, str]) -> dict[str, str]:
    return {key[len(prefix) :]: value for key, value in options.items() if key.startswith(prefix) and key != prefix}


def _metadata(catalog: IcebergRestClient, answer: Mapping[str, Any]) -> Json:
    found = answer.get("metadata")
    if not isinstance(found, dict) or not all(isinstance(found.get(key), kind) for key, kind in _NEEDED.items()):
        raise CatalogServerError(f"{catalog.server} gives an answer that is no table.")
    return found


def _for_catalogs(location: str) -> str:
    """A location with the scheme that catalogs know."""
    scheme, colon, rest = location.partition("://")
    return f"s3://{rest}" if colon and scheme in ("s3a", "s3n") else location


def _cannot_register(catalog: IcebergRestClient, entry: IcebergRest) -> str:
    return (
        f"{catalog.server} cannot register tables, which the row ids of {entry.database}.{entry.table} need after a "
        "rollback or a commit that it has missed; its table is left as it is. Use another catalog, or set "
        "'metadata.iceberg.format-version' to '2'."
    )
