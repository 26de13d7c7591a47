"""Records of a Hive metastore for views, as Java's ``HiveCatalog`` makes and reads them."""

from __future__ import annotations

import time
from typing import Any, Final

from paimon_spark.metastore.hive_client import records
from paimon_spark.metastore.hive_table import column_record, paimon_type
from paimon_spark.spec import data_types as types
from paimon_spark.spec.schema import assign_field_ids
from paimon_spark.spec.view_records import View

_COMMENT: Final = "comment"
_OF_HIVE: Final = ("transient_lastDdlTime", "last_modified_time", "last_modified_by")
"""Parameters that the metastore writes itself."""


def new_record(database: str, name: str, view: View, owner: str) -> Any:
    """The record of a new view. Java: ``HiveCatalog.createView``."""
    hive, now = records(), int(time.time())
    made = hive.Table(
        tableName=name,
        dbName=database,
        owner=owner,
        createTime=now,
        lastAccessTime=0,
        retention=0,
        partitionKeys=[],
        parameters={},
        tableType="VIRTUAL_VIEW",
        sd=hive.StorageDescriptor(
            compressed=False,
            numBuckets=-1,
            storedAsSubDirectories=False,
            serdeInfo=hive.SerDeInfo(parameters={"serialization.format": "1"}),
            bucketCols=[],
            sortCols=[],
            parameters={},
        ),
    )
    fill(made, view)
    return made


def fill(found: Any, view: View) -> None:
    """Write query, columns, options and comment."""
    kept = {key: text for key, text in (found.parameters or {}).items() if key in _OF_HIVE}
    found.parameters = {**kept, **view.options, **({} if view.comment is None else {_COMMENT: view.comment})}
    found.viewOriginalText = found.viewExpandedText = view.spark_query
    found.sd.cols = [column_record(field) for field in view.fields]


def view_of(found: Any) -> View:
    """Read the record of a view. Java: ``HiveCatalog.getView``."""
    options = {key: text for key, text in (found.parameters or {}).items() if key not in _OF_HIVE}
    comment = options.pop(_COMMENT, None)
    fields = [types.DataField(0, each.name, paimon_type(each.type), each.comment) for each in found.sd.cols or ()]
    return View(assign_field_ids(fields)[0], found.viewExpandedText or "", {}, comment, options)
