"""A table of a REST catalog: its server is asked for the schema and the latest snapshot, and publishes commits.

Java: ``RESTCatalog``, ``CatalogSnapshotCommit``, ``CatalogBranchManager``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from paimon_spark.errors import CatalogServerError, CorruptTableError, SchemaError, TableNotFoundError, UnsupportedError
from paimon_spark.metastore.metastore import TableHome
from paimon_spark.options import GOVERNED
from paimon_spark.spec.data_types import walk_fields
from paimon_spark.spec.schema import TableSchema
from paimon_spark.spec.snapshot import Snapshot

if TYPE_CHECKING:
    from paimon_spark.metastore.rest_client import RestClient

SCHEME = "rest://"
MAIN = "main"
_LIMITS = {"filter": "rows", "columnMasking": "values"}
_MOST_PARTITIONS = 1000
"""Of one request."""
_WITHIN = ("SNAPSHOT", "TAG", "BRANCH", "COLUMN")
"""What a server may miss of a table that it has; any other 404 says that it does not have the table, as in Java."""


def catalog_root(warehouse: str) -> str:
    """The path of a REST catalog: ``rest://<warehouse>``, below which are ``<database>.db/<table>``."""
    return f"{SCHEME}{quote(warehouse, safe='')}"


@dataclass(frozen=True)
class Served:
    """What a server reports a table."""

    id: str
    path: str
    is_external: bool
    schema: TableSchema

    @staticmethod
    def of(answer: Mapping[str, Any], name: str) -> Served:
        """Read the answer to a request for a table.

        Raises:
            CorruptTableError: it is none.
        """
        where = f"the REST catalog's answer for table {name}"
        try:
            schema = dict(answer["schema"])
            fields = schema["fields"]
            text = {
                "version": 3,
                "id": int(answer["schemaId"]),
                "fields": fields,
                "highestFieldId": 0,
                "partitionKeys": list(schema.get("partitionKeys") or ()),
                "primaryKeys": list(schema.get("primaryKeys") or ()),
                "options": {key: value for key, value in (schema.get("options") or {}).items() if key != "path"},
                "timeMillis": int(answer.get("updatedAt") or 0),
            }
            if schema.get("comment") is not None:
                text["comment"] = schema["comment"]
            path, table_id, external = str(answer["path"]), str(answer["id"]), bool(answer.get("isExternal"))
        except (KeyError, TypeError, ValueError):
            raise CorruptTableError(f"A schema, an id and a path are missing in {where}.") from None
        found = TableSchema.from_json(json.dumps(text), path=where)
        highest = max((each.id for each in walk_fields(found.fields)), default=-1)
        return Served(table_id, path.rstrip("/"), external, replace(found, highest_field_id=highest))


@dataclass(frozen=True)
class ServedTable(TableHome):
    """A table of a REST catalog that was found. Picklable and hashable."""

    client: RestClient
    root: str
    """The path of the catalog."""
    table_id: str
    path: str = field(compare=False)
    is_external: bool = False
    is_governed: bool = field(default=False, compare=False)
    """Whether the server may hide rows and values of it: it is asked with each latest snapshot."""

    @property
    def server(self) -> ServedTable:
        """The server decides."""
        return self

    @property
    def address(self) -> str:
        """The path by which the catalog's options lead to the table."""
        return f"{self.root}/{self.database}.db/{self.table}"

    @property
    def keeps_snapshots(self) -> bool:
        """Whether commits go to the server."""
        return not self.is_external

    def locked(self, branch: str) -> AbstractContextManager[None]:
        """The server has no locks, and needs none."""
        return nullcontext()

    def schema(self, branch: str) -> TableSchema:
        """Return the latest schema."""
        with self._found(branch):
            return Served.of(self.client.get(*self._at(branch)), self._name(branch)).schema

    def alter(self, branch: str, changes: Sequence[Mapping[str, Any]]) -> None:
        """Make the next schema."""
        with self._found(branch):
            self.client.post(*self._at(branch), body={"changes": list(changes)})

    def replace(self, schema: TableSchema) -> None:
        """Give the table another schema in one step."""
        with self._found(""):
            self.client.post(*self._at(""), "replace", body={"schema": schema_json(schema)})

    def latest(self, branch: str) -> Snapshot | None:
        """Return the latest snapshot.

        Raises:
            UnsupportedError: the server hides rows or values of the table by now.
        """
        if self.is_governed:
            self.check_free_of_limits()
        answer = self._of_snapshot(branch, "snapshot")
        found = None if answer is None else answer.get("snapshot")
        if isinstance(found, dict) and "snapshot" in found:  # TableSnapshot: with statistics next to it
            found = found["snapshot"]
        return self._snapshot(found, branch)

    def snapshot(self, branch: str, snapshot_id: int) -> Snapshot | None:
        """Return a snapshot."""
        answer = self._of_snapshot(branch, "snapshots", str(snapshot_id))
        return self._snapshot(None if answer is None else answer.get("snapshot"), branch)

    def _of_snapshot(self, branch: str, *resource: str) -> dict[str, Any] | None:
        with self._found(branch):
            try:
                return self.client.get(*self._at(branch), *resource)
            except CatalogServerError as error:
                if error.status == 404 and error.resource == "SNAPSHOT":
                    return None
                raise

    def _snapshot(self, found: Any, branch: str) -> Snapshot | None:
        if found is None:
            return None
        return Snapshot.from_json(json.dumps(found), path=f"the latest snapshot of table {self._name(branch)}")

    def commit(
        self, branch: str, snapshot: Snapshot, base_uuid: str | None, statistics: Sequence[Mapping[str, Any]]
    ) -> bool:
        """Publish a snapshot."""
        body = {
            "tableId": self.table_id,
            "baseSnapshotUuid": base_uuid,
            "snapshot": snapshot.to_json_object(),
            "statistics": list(statistics),
        }
        with self._found(branch):
            return bool(self.client.post(*self._at(branch), "commit", body=body).get("success"))

    def roll_back(self, branch: str, *, snapshot_id: int | None, tag: str | None, previous_id: int) -> None:
        """Make an earlier snapshot, or that of a tag, the latest one."""
        instant: dict[str, Any] = {"type": "tag", "tagName": tag}
        if tag is None:
            instant = {"type": "snapshot", "snapshotId": snapshot_id}
        with self._found(branch):
            body = {"instant": instant, "fromSnapshot": previous_id}
            self.client.post(*self._at(branch), "rollback", body=body)

    def create_branch(self, name: str, tag: str | None) -> None:
        """Make a branch."""
        self._of_branches(name, lambda: self.client.post(
            *self._at(""), "branches", body={"branch": name, "fromTag": tag}
        ))  # fmt: skip

    def delete_branch(self, name: str) -> None:
        """Delete a branch."""
        self._of_branches(name, lambda: self.client.delete(*self._at(""), "branches", name))

    def fast_forward(self, name: str) -> None:
        """Let the main branch be what a branch is."""
        self._of_branches(name, lambda: self.client.post(
            *self._at(""), "branches", name, "forward", body={}
        ))  # fmt: skip

    def rename_branch(self, name: str, new_name: str) -> bool:
        """Give a branch another name, by the interface's request, which Java's client has up to 1.4."""
        try:
            self._of_branches(new_name, lambda: self.client.post(
                *self._at(""), "branches", name, "rename", body={"toBranch": new_name}
            ))  # fmt: skip
        except CatalogServerError as error:
            if error.status not in (405, 501):
                raise
            return False
        return True

    @property
    def mark_actions(self) -> frozenset[str]:
        """Events; of partitions it learns by commits alone."""
        return frozenset(("mark-event",))

    def mark_partitions_done(self, branch: str, partitions: Sequence[Mapping[str, str]]) -> None:
        """Mark partitions; a server that keeps no partitions of the table (501) is passed over, as in Java."""
        try:
            with self._found(branch):
                self.client.post(*self._at(branch), "partitions", "mark", body={"specs": [dict(p) for p in partitions]})
        except CatalogServerError as error:
            if error.status != 501:
                raise

    def registered_partitions(self) -> list[dict[str, str]]:
        """Return the partitions that the server knows."""
        with self._partitions():
            found = self.client.listed("partitions", *self._at(""), "partitions", sparse=True)
        return [{key: str(text) for key, text in (each.get("spec") or {}).items()} for each in found]

    def register_partitions(
        self,
        partitions: Sequence[Mapping[str, str]],
        statistics: Sequence[Mapping[str, Any]],
        *,
        replaces: bool = False,
        only_new: bool = False,
    ) -> None:
        """Let the server know partitions."""
        at = {tuple(each["spec"].items()): each for each in statistics}
        size = len(partitions) if only_new else _MOST_PARTITIONS  # all of them or none
        for some in _chunks(partitions, size):
            own = [at[key] for each in some if (key := tuple(each.items())) in at]
            measured = {"partitionStatistics": own, "replaceStatistics": replaces} if own else {}
            body = {"partitionSpecs": [dict(each) for each in some], "ignoreIfExists": not only_new, **measured}
            try:
                with self._partitions():
                    self.client.post(*self._at(""), "partitions", body=body)
            except CatalogServerError as error:
                if error.status == 409 and only_new:
                    raise SchemaError(f"A partition of {self._name('')} exists already: {error}") from None
                raise

    def unregister_partitions(self, partitions: Sequence[Mapping[str, str]]) -> None:
        """Let the server forget partitions."""
        for some in _chunks(partitions, _MOST_PARTITIONS):
            body = {"partitionSpecs": [dict(each) for each in some], "ignoreIfNotExists": True}
            with self._partitions():
                self.client.post(*self._at(""), "partitions", "drop", body=body)

    @contextmanager
    def _partitions(self) -> Iterator[None]:
        """Say that the server keeps no partitions of the table where it has no such request."""
        try:
            yield
        except CatalogServerError as error:
            if error.status == 404 and error.resource in ("TABLE", "DATABASE"):
                raise TableNotFoundError(f"There is no Paimon table {self._name('')} in {self._catalog}.") from None
            if error.status in (404, 405, 501):
                raise UnsupportedError(
                    f"{self._catalog[0].upper()}{self._catalog[1:]} does not keep partitions of {self._name('')} (HTTP "
                    f"{error.status}): take 'metastore.partitioned-table' away by ALTER TABLE … UNSET TBLPROPERTIES, "
                    "and the table's directories say which there are."
                ) from None
            raise

    def _of_branches(self, name: str, send: Callable[[], Any]) -> None:
        try:
            with self._found(""):
                send()
        except CatalogServerError as error:
            if error.status == 409:
                raise SchemaError(f"Branch name '{name}' already exists.") from None
            raise

    def token(self) -> tuple[dict[str, str], float]:
        """Return the options by which the table's files are reached now, and when they end, in seconds since 1970."""
        with self._found(""):
            answer = self.client.get(*self._at(""), "token")
        return dict(answer.get("token") or {}), float(answer.get("expiresAtMillis") or 0) / 1000

    def check_free_of_limits(self) -> None:
        """Refuse a governed table of which the server hides rows or values (Java: ``TableQueryAuthResult``).

        Raises:
            UnsupportedError: it does.
        """
        with self._found(""):
            answer = self.client.post(*self._at(""), "auth", body={"select": None})
        hidden = [what for limit, what in _LIMITS.items() if answer.get(limit)]
        if hidden:
            raise UnsupportedError(
                f"Table {self._name('')} is governed ('{GOVERNED}'), and its REST catalog hides "
                f"{' and '.join(hidden)} of it from you, which is not supported. Read it with the official connector, "
                "or ask for the right to read all of it."
            )

    def _at(self, branch: str) -> tuple[str, ...]:
        return ("databases", self.database, "tables", object_name(self.table, branch))

    def _name(self, branch: str) -> str:
        return f"{self.database}.{object_name(self.table, branch)}"

    @contextmanager
    def _found(self, branch: str) -> Iterator[None]:
        """Say that the table, or its branch, is gone where the server does."""
        try:
            yield
        except CatalogServerError as error:
            if error.status == 404 and error.resource not in _WITHIN:
                raise TableNotFoundError(f"There is no Paimon table {self._name(branch)} in {self._catalog}.") from None
            raise

    @property
    def _catalog(self) -> str:
        return f"the REST catalog at {self.client.uri}"


def _chunks(partitions: Sequence[Mapping[str, str]], size: int) -> Iterator[Sequence[Mapping[str, str]]]:
    return (partitions[start : start + size] for start in range(0, len(partitions), max(size, 1)))


def object_name(table: str, branch: str) -> str:
    """The name of a table, or of its branch, as requests have it."""
    return f"{table}$branch_{branch}" if branch not in ("", MAIN) else table


def schema_json(schema: TableSchema) -> dict[str, Any]:
    """A schema as Java's ``Schema`` writes it."""
    found: dict[str, Any] = {
        "fields": [field.to_json() for field in schema.fields],
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    return found if schema.comment is None else {**found, "comment": schema.comment}
