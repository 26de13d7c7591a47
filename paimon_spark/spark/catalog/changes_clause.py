"""Answers Spark's ``Changelog`` (from 4.3 on): ``SELECT * FROM t CHANGES FROM VERSION 3 TO VERSION 7``.

Also ``spark.read.changes("t")``, and ``spark.readStream.changes("t")``: Spark does not say which it is before it asks
for a stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from paimon_spark.errors import OptionError, SnapshotNotFoundError
from paimon_spark.read.audit_log import CHANGE_FEED, feed_source, refuse_without_changelog
from paimon_spark.spark.catalog.loading import LoadedTable
from paimon_spark.spark.catalog.scan import ScanBuilderProxy, ScanProxy
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.jvm.answer_proxy import AnswerProxy, Question, Reply, Value, described_proxy
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spec.sql_text import quoted_name
from paimon_spark.table.table import FileStoreTable
from paimon_spark.table.time_travel import INCREMENTAL_KEYS, SNAPSHOT_ID, TIMESTAMP_MILLIS

_BETWEEN, _BETWEEN_TIMESTAMP, _ = INCREMENTAL_KEYS
_NET_CHANGES = "NET_CHANGES"
_OF_CHANGES = frozenset(
    {
        "startingversion",
        "endingversion",
        "startingtimestamp",
        "endingtimestamp",
        "startingboundinclusive",
        "endingboundinclusive",
        "deduplicationmode",
        "computeupdates",
    }
)
"""Options of ``changes`` that Spark has read already, in lower case (Spark: ``ChangelogContextUtils``)."""


class ChangelogProxy(AnswerProxy):
    """The changes of one table in the range that one statement asks for."""

    interfaces = ("org.apache.spark.sql.connector.catalog.Changelog",)
    asked: ClassVar[Mapping[str, str]] = {"newScanBuilder": "_asked_scan_builder"}

    def __init__(self, gateway: Gateway, catalog_name: str, loaded: LoadedTable, context: JavaObject) -> None:
        super().__init__(gateway)
        if context.deduplicationMode().name().upper() == _NET_CHANGES:
            raise OptionError(
                "CHANGES with deduplicationMode = 'netChanges' is not supported: leave it out, or compare two states "
                "by SELECT * FROM `t$audit_log` WITH ('incremental-between' = 'a,b', "
                "'incremental-between-scan-mode' = 'diff')."
            )
        refuse_without_changelog(loaded.table)
        self.table_name = f"{catalog_name}.{loaded.name}"
        self.range = str(context.range().toString())
        options = {
            **range_options(loaded.table, context.range()),
            "incremental-between-scan-mode": feed_source(loaded.table).value,
        }
        self.loaded = replace(loaded, table=loaded.table.with_options(options))
        self.stream_start = stream_start(loaded.table, context.range())

    def answers(self) -> dict[str, Value]:
        """The columns of the table, then the kind of the change, its snapshot and its time; how updates are shown."""
        keys = self.loaded.table.schema.primary_keys
        return {
            "name": f"{self.table_name} CHANGES",
            "columns": ["columns", to_spark_struct(CHANGE_FEED.fields(self.loaded.table)).json()],
            "containsCarryoverRows": False,  # no unchanged rows are among the changes
            "containsIntermediateChanges": bool(keys),  # a row that changed several times comes several times
            "representsUpdateAsDeleteAndInsert": False,  # it is the row before and the row after
            "rowId": ["references", [quoted_name(name) for name in keys]],
        }

    def _asked_scan_builder(self, question: Question) -> Reply:
        others = {key: value for key, value in question.arguments[0].items() if key.lower() not in _OF_CHANGES}
        return Reply(described_proxy(ChangesBuilderProxy(self.gateway, self.loaded, others, self.stream_start)))

    def rowVersion(self) -> JavaObject:
        """The snapshot."""
        return self.gateway.jvm.org.apache.spark.sql.connector.expressions.Expressions.column("_commit_version")

    def toString(self) -> str:
        """The text that `equals` compares: the table and the range."""
        return f"{self.loaded.table.path}@{self.loaded.table.branch} CHANGES {self.range}"


class ChangesBuilderProxy(ScanBuilderProxy):
    """A builder for a scan or a stream of changes."""

    def __init__(
        self, gateway: Gateway, loaded: LoadedTable, options: Mapping[str, str], stream_start: Mapping[str, str] | None
    ) -> None:
        super().__init__(gateway, loaded, options, CHANGE_FEED)
        self.stream_start = stream_start

    def _scan(self) -> AnswerProxy:
        scan = super()._scan()
        if isinstance(scan, ScanProxy):
            scan.plan = replace(scan.plan, stream_start=self.stream_start)
        return scan


def stream_start(table: FileStoreTable, given_range: JavaObject) -> dict[str, str] | None:
    """The options of a stream that begins where a ``ChangelogRange`` does; None if the range has an end.

    A range without a start is the state of the table, and then its changes.

    Raises:
        SnapshotNotFoundError: there is no such snapshot or tag.
    """
    kind = given_range.getClass().getSimpleName()
    if kind == "VersionRange" and not given_range.endingVersion().isPresent():
        behind = 1 - int(given_range.startingBoundInclusive())
        return {SNAPSHOT_ID: str(version_id(table, str(given_range.startingVersion())) + behind)}
    if kind == "TimestampRange" and not given_range.endingTimestamp().isPresent():
        first = int(given_range.startingTimestamp()) + 1 - int(given_range.startingBoundInclusive())
        return {TIMESTAMP_MILLIS: str(-(-first // 1000))}
    return {} if kind == "UnboundedRange" else None


def range_options(table: FileStoreTable, given_range: JavaObject) -> dict[str, str]:
    """The read options of a ``ChangelogRange``; ours leave out the start and take in the end.

    Raises:
        SnapshotNotFoundError: there is no such snapshot or tag.
        OptionError: the range is none of versions or timestamps.
    """
    kind = given_range.getClass().getSimpleName()
    if kind == "UnboundedRange":
        return {}  # a plan of a batch refuses it; a stream begins with the state of the table
    before, behind = int(given_range.startingBoundInclusive()), 1 - int(given_range.endingBoundInclusive())
    if kind == "VersionRange":
        start = version_id(table, str(given_range.startingVersion())) - before
        given = given_range.endingVersion()
        end = version_id(table, str(given.get())) - behind if given.isPresent() else table.snapshots.latest_id() or 0
        return {_BETWEEN: f"{start},{end}"}
    if kind == "TimestampRange":
        start = int(given_range.startingTimestamp()) // 1000 - before
        given = given_range.endingTimestamp()
        latest = table.snapshots.latest()
        end = int(given.get()) // 1000 - behind if given.isPresent() else latest.time_millis if latest else start
        return {_BETWEEN_TIMESTAMP: f"{start},{max(start, end)}"}
    raise OptionError(f"CHANGES takes versions or timestamps, not {kind}.")


def version_id(table: FileStoreTable, version: str) -> int:
    """The snapshot's id that a version means: a tag, or digits.

    Raises:
        SnapshotNotFoundError: it is neither.
    """
    if table.tags.exists(version):
        return table.tags.get(version).snapshot.id
    if version.isascii() and version.isdigit():
        return int(version)
    raise SnapshotNotFoundError(
        f"Version '{version}' is neither a snapshot's id nor a tag. The tags are: "
        f"{', '.join(table.tags.names()) or 'none'}."
    )
