"""Entries of a Hive metastore by which Iceberg's readers find a table. Java: ``IcebergHiveMetadataCommitter``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from paimon_spark.errors import UnsupportedError
from paimon_spark.metastore.hive_client import HiveClient, HiveRefusalError, address_of, records, settings_of
from paimon_spark.metastore.hive_records import column_record

if TYPE_CHECKING:
    from paimon_spark.spec.data_types import DataField

_PREFIX: Final = "metadata.iceberg."
_MISSING: Final = "NoSuchObjectException"
_TAKEN: Final = "AlreadyExistsException"
_MAX_INT: Final = 2**31 - 1
_INPUT_FORMAT: Final = "org.apache.hadoop.mapred.FileInputFormat"
_OUTPUT_FORMAT: Final = "org.apache.hadoop.mapred.FileOutputFormat"
_SERDE: Final = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"


@dataclass(frozen=True)
class IcebergHive:
    """Where a table is entered; each database has an entry of the same name."""

    client: HiveClient
    databases: tuple[str, ...]
    table: str
    skips_statistics: bool
    skips_archive: bool

    @staticmethod
    def of(options: Mapping[str, str], database: str, table: str) -> IcebergHive:
        """Return the entries of a table; no request is made.

        Args:
            options: of the table, those of its ``hive.*`` among them.
            database: name of the table's database, where no option names another one.
            table: its name, where no option names another one.

        Raises:
            OptionError: no option says where the metastore is.
            UnsupportedError: the metastore wants what this client cannot do.
        """
        own = {key.removeprefix(_PREFIX): value for key, value in options.items() if key.startswith(_PREFIX)}
        given = {key: value for key, value in options.items() if key.startswith(("hive.", "security."))}
        given |= {key: own[key] for key in ("uri", "hive-conf-dir") if key in own}
        given["metastore.client.class"] = own.get("hive-client-class", "")
        named = [name.strip() for name in own.get("database", "").split(";")]
        return IcebergHive(
            HiveClient(address_of(settings_of(given))),
            tuple(name for name in named if name) or (database,),
            own.get("table") or table,
            own.get("hive-skip-update-stats", "").strip().lower() == "true",
            own.get("glue.skip-archive", "").strip().lower() == "true",
        )

    def enter(self, fields: tuple[DataField, ...], metadata: str, before: str | None, new_database: str) -> None:
        """Let the entries name the metadata of a snapshot; what is not there is made.

        Args:
            fields: columns of the table.
            metadata: path of the metadata file.
            before: that of the snapshot before, if it was gone on with.
            new_database: where a database that is made lies.

        Raises:
            PaimonError: the metastore cannot be reached, or refuses; or another kind of table has the name
                (# Java: it becomes the entry).
        """
        for database in self.databases:
            self._make_database(database, new_database)
            found = self._found(database) or self._made(database, fields, metadata)
            found.parameters |= {"table_type": "ICEBERG", "metadata_location": metadata}
            if before is not None:
                found.parameters["previous_metadata_location"] = before
            found.sd.cols = [column_record(field) for field in fields]
            context = records().EnvironmentContext(
                properties={
                    "CASCADE": "true",
                    "skipAWSGlueArchive": str(self.skips_archive).lower(),
                    "DO_NOT_UPDATE_STATS": str(self.skips_statistics).lower(),
                }
            )
            self.client.call("alter_table_with_environment_context", database, self.table, found, context)

    def _make_database(self, database: str, location: str) -> None:
        try:
            self.client.call("get_database", database)
        except HiveRefusalError as error:
            if error.kind != _MISSING:
                raise
            made = records().Database(name=database, locationUri=location, parameters={})
            try:
                self.client.call("create_database", made, done_by=(_TAKEN,))
            except HiveRefusalError as refusal:
                if refusal.kind != _TAKEN:  # another commit was faster
                    raise

    def _found(self, database: str) -> Any:
        try:
            found = self.client.call("get_table", database, self.table)
        except HiveRefusalError as error:
            if error.kind == _MISSING:
                return None
            raise
        if found.parameters.get("table_type", "").upper() not in ("ICEBERG", "PAIMON"):
            raise UnsupportedError(
                f"The Hive metastore has another table {database}.{self.table}, which Iceberg's entry would replace. "
                f"Give the entry another name with '{_PREFIX}database' or '{_PREFIX}table'."
            )
        return found

    def _made(self, database: str, fields: tuple[DataField, ...], metadata: str) -> Any:
        hive, now = records(), int(time.time())
        made = hive.Table(
            tableName=self.table,
            dbName=database,
            owner=self.client.user,
            createTime=now,
            lastAccessTime=now,
            retention=_MAX_INT,
            partitionKeys=[],
            parameters={
                "DO_NOT_UPDATE_STATS": str(self.skips_statistics).lower(),
                "EXTERNAL": "TRUE",
                "table_type": "ICEBERG",
            },
            tableType="EXTERNAL_TABLE",
            sd=hive.StorageDescriptor(
                location=metadata.rsplit("/", 2)[0],
                cols=[column_record(field) for field in fields],
                inputFormat=_INPUT_FORMAT,
                outputFormat=_OUTPUT_FORMAT,
                serdeInfo=hive.SerDeInfo(serializationLib=_SERDE, parameters={}),
                compressed=False,
                numBuckets=0,
                storedAsSubDirectories=False,
                parameters={},
            ),
        )
        self.client.call("create_table", made, done_by=(_TAKEN,))
        return made
