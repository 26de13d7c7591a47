"""The table of an Iceberg REST catalog by which Iceberg's readers find a table of Paimon.

Equals Java's ``IcebergRestMetadataCommitter``, but for what is marked ``# Java:``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import CatalogServerError, UnsupportedError
from paimon_spark.metastore.iceberg_rest_client import PREFIX, IcebergRestClient, check_settings
from paimon_spark.spec.iceberg.catalog_updates import (
    RESERVED_PROPERTIES,
    adjusted,
    is_ours,
    needs_registration,
    new_table,
    requirements_of,
    updates_of,
)

if TYPE_CHECKING:
    from paimon_spark.spec.iceberg.metadata import IcebergMetadata
    from paimon_spark.spec.iceberg.types import Json

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
