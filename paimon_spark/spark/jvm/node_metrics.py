"""Metrics of scans and writes that Spark's UI shows at their nodes: the kinds of Java's ``PaimonMetrics.scala``.

The UI makes an object of a metric by the name of its class, so Spark's own loader must find the class: it is compiled
into a directory of that loader, once in a JVM. A driver whose loader takes no classes shows no metrics.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError

from paimon_spark.spark.jvm.java_sources import shared_object, sources

if TYPE_CHECKING:
    from paimon_spark.commit.row_counts import CommitMetrics, RowCounts
    from paimon_spark.spark.jvm.answer_proxy import Value
    from paimon_spark.spark.jvm.gateway import Gateway, JavaObject

_LOG = logging.getLogger(__name__)
_CLASS: Final = "PaimonMetrics"
_SOURCE: Final = "PaimonMetric"

SCAN_METRICS: Final = (
    ("Id", "scannedSnapshotId", "scanned snapshot id"),
    ("Time", "planningDuration", "planning duration"),
    ("Count", "scannedManifests", "number of manifests"),
    ("Count", "resultedTableFiles", "number of table files read"),
    ("Count", "skippedTableFiles", "number of table files skipped"),
    ("Size", "resultedTableBytes", "size of table files read"),
    ("Count", "numSplits", "number of splits read"),
    ("Count", "mergedSplits", "number of splits merged"),
    ("Count", "numPartitions", "number of partitions read"),
)
"""Kind, name and description."""
WRITE_METRICS: Final = (
    ("Id", "committedSnapshotId", "committed snapshot id"),
    ("Time", "commitDuration", "commit duration"),
    ("Count", "addedTableFiles", "number of added table files"),
    ("Size", "addedTableBytes", "size of added table files"),
    ("Count", "insertedRecords", "number of records in added table files"),
    ("Count", "deletedTableFiles", "number of deleted table files"),
    ("Count", "changelogRecords", "number of changelog records"),
    ("Count", "partitionsWritten", "number of partitions written"),
    ("Count", "bucketsWritten", "number of buckets written"),
)

STATEMENT_METRICS: Final = (
    ("Count", "insertedRows", "number of inserted rows"),
    ("Count", "updatedRows", "number of updated rows"),
    ("Count", "deletedRows", "number of deleted rows"),
    *WRITE_METRICS,
)
"""Of UPDATE, DELETE and MERGE. What only a read of the table could tell has no value."""

_INSTALLED: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
_LOCK = threading.Lock()


def shows_metrics(gateway: Gateway) -> bool:
    """Whether the UI of this JVM finds the classes. They are compiled on first use."""
    with _LOCK:
        if gateway.gateway not in _INSTALLED:
            try:
                _INSTALLED[gateway.gateway] = bool(_call(gateway, sources()[_SOURCE]))
            except (Py4JError, TypeError) as error:
                _LOG.info("Spark's UI shows no metrics of scans and writes: %s", str(error).partition("\n\tat ")[0])
                _INSTALLED[gateway.gateway] = False
        return _INSTALLED[gateway.gateway]


def supported_write_metrics(gateway: Gateway) -> Value:
    """``CustomMetric[]`` of a write."""
    return ["metrics", WRITE_METRICS if shows_metrics(gateway) else ()]


def reported_write_metrics(gateway: Gateway, metrics: CommitMetrics | None) -> JavaObject:
    """``CustomTaskMetric[]`` of a write; none before its commit."""
    shown = metrics is not None and shows_metrics(gateway)
    return _call(gateway, _write_values(metrics) if shown and metrics is not None else {})


def statement_metrics(gateway: Gateway) -> str:
    """The metrics of a statement that changes rows, as ``PaimonStatement`` takes them."""
    return json.dumps(STATEMENT_METRICS if shows_metrics(gateway) else ())


def statement_values(counts: RowCounts, metrics: CommitMetrics) -> str:
    """Their values, as it takes them."""
    rows = {
        "insertedRows": counts.num_inserted_rows,
        "updatedRows": counts.num_updated_rows,
        "deletedRows": counts.num_deleted_rows,
    }
    return json.dumps({**{name: value for name, value in rows.items() if value is not None}, **_write_values(metrics)})


def _write_values(metrics: CommitMetrics) -> Mapping[str, int]:
    return {
        **({} if metrics.snapshot_id is None else {"committedSnapshotId": metrics.snapshot_id}),
        "commitDuration": metrics.millis,
        "addedTableFiles": metrics.added_files,
        "addedTableBytes": metrics.added_bytes,
        "insertedRecords": metrics.added_rows,
        "deletedTableFiles": metrics.deleted_files,
        "changelogRecords": metrics.changelog_rows,
        "partitionsWritten": metrics.partitions,
        "bucketsWritten": len(metrics.buckets),
    }


def _call(gateway: Gateway, given: object) -> Any:
    return shared_object(gateway, _CLASS).apply(json.dumps(given))
