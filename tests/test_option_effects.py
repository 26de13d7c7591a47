"""The behaviour of options that `test_honoured_options` cannot see being asked for: each set, and its effect looked at.

None needs a session of Spark. What only a session shows (`read.spark-parquet`) is asked of the function that decides.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.overwrite import OverwriteSpec
from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.maintain.after_commit import maintain
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.maintain.expire.snapshots import expire_snapshots
from paimon_spark.maintain.refs.branches import create_branch
from paimon_spark.read.row_views import ROWS
from paimon_spark.read.split_read import read_split
from paimon_spark.spark.catalog.distributed_rows import Parallelism, write_distribution
from paimon_spark.spark.catalog.native_scan import is_native
from paimon_spark.spark.catalog.scan_plan import ScanPlan
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spark.source.source_options import read_request, write_request
from paimon_spark.spark.source.write_target import target_table
from paimon_spark.spark.sql.table_descriptions import described_table
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.predicate import Leaf
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.filesystem_catalog import check_catalog_options
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of

COLUMNS = {"k": "INT NOT NULL", "dt": "STRING", "v": "INT", "g": "INT"}
HOUR = 3_600_000
START = 1_700_000_000_000


def make(path: Path, keys: str = "", parts: str = "", **options: str) -> FileStoreTable:
    """A table of `COLUMNS`; in names of options two underscores are a dot, one is a dash."""
    fields = [DataField(i, name, parse_type(kind)) for i, (name, kind) in enumerate(COLUMNS.items())]
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    schema = create_schema(fields, keys.split(",") if keys else (), parts.split(",") if parts else (), named, None)
    return create_table(str(path / "t"), schema)


def write(table: FileStoreTable, *rows: tuple[Any, ...], watermark: int | None = None, **more: Any) -> None:
    data = pa.Table.from_pylist(
        [dict(zip(COLUMNS, row, strict=True)) for row in rows], to_arrow_schema(table.schema.fields)
    )
    message = write_batches(plan_write(table, data_schema=data.schema), data.to_batches(), 0)
    commit(table, [message], watermark=watermark, after_commit=lambda s: maintain(table, s), **more)


def read(table: FileStoreTable) -> list[tuple[Any, ...]]:
    plan = plan_of(table, ROWS)
    batches = (batch for split in plan.splits for batch in read_split(plan.table, split, plan.fields, plan.residual))
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize(("completes", "tags"), [("false", 1), ("true", 4)])
def test_tag_automatic_completion(tmp_path: Path, completes: str, tags: int) -> None:
    table = make(
        tmp_path,
        tag__automatic_creation="watermark",
        tag__creation_period="hourly",
        **{"tag.automatic-completion": completes},
    )
    for hours in (0, 3, 3.1, 3.2, 3.3):
        write(table, (1, "a", 1, 1), watermark=START + int(hours * HOUR))
    assert len(table.tags.names()) >= tags
    if completes == "false":
        assert len(table.tags.names()) < 4


@pytest.mark.parametrize("cleans", ["false", "true"])
def test_snapshot_clean_empty_directories(tmp_path: Path, cleans: str) -> None:
    table = make(tmp_path, parts="dt", **{"snapshot.clean-empty-directories": cleans})
    for value in ("a", "b"):
        write(table, (1, value, 1, 1), overwrite=OverwriteSpec.static())
    expire_snapshots(table.with_options({"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}))
    assert (tmp_path / "t" / "dt=a").exists() == (cleans == "false")
    assert read(table) == [(1, "b", 1, 1)]


def test_commit_unsafe_rename(tmp_path: Path) -> None:
    assert FileIO.for_path(str(tmp_path), {"commit.unsafe-rename": "true"}).unsafe_rename
    assert not FileIO.for_path(str(tmp_path), {}).unsafe_rename


def test_metastore() -> None:
    check_catalog_options({"metastore": "filesystem", "s3.endpoint": "x"})
    for kind in ("jdbc", "hive", "rest"):
        check_catalog_options({"metastore": kind, "uri": "x", "client-pool-size": "5"})
    with pytest.raises(UnsupportedError, match="'metastore' = 'glue'"):
        check_catalog_options({"metastore": "glue"})
    with pytest.raises(UnsupportedError, match="add 'metastore' = 'hive'"):
        check_catalog_options({"metastore": "jdbc", "uri": "x", "location-in-properties": "true"})


def test_branch(tmp_path: Path) -> None:
    table = make(tmp_path)
    write(table, (1, "a", 1, 1))
    create_branch(table, "side")
    path = table.path
    write(load_table(path, branch="side"), (2, "b", 2, 2))
    request = read_request({"path": path, "branch": "side"})
    assert len(read(load_table(request.path, options=request.options))) == 1, "the branch was empty when it was made"
    assert read(load_table(path)) == [(1, "a", 1, 1)]
    target = target_table(write_request({"path": path, "branch": "side"}, overwrite=False), cast(Any, None))
    assert target.branch == "side"


def test_sequence_group(tmp_path: Path) -> None:
    table = make(
        tmp_path, "k", bucket="1", merge_engine="partial-update", write_only="true", **{"fields.g.sequence-group": "v"}
    )
    write(table, (1, "a", 10, 5))
    write(table, (1, "b", 20, 4))
    assert read(table) == [(1, "b", 10, 5)], "the older of the group does not win"


def test_read_spark_parquet(tmp_path: Path) -> None:
    table = make(tmp_path)
    scan = SimpleNamespace(table=table.with_options({"read.spark-parquet": "false"}), metadata=())
    gateway, none = cast(Any, None), cast(Any, {})
    assert not is_native(gateway, cast(Any, scan), none), "no other question is asked"
    with pytest.raises(AttributeError):
        is_native(gateway, cast(Any, SimpleNamespace(table=table, metadata=())), none)


def test_partition_sink_strategy(tmp_path: Path) -> None:
    parallelism = Parallelism(True, 4)
    free = make(tmp_path / "none", parts="dt")
    together = make(tmp_path / "hash", parts="dt", **{"partition.sink-strategy": "hash"})
    assert write_distribution(free, parallelism).columns == ()
    assert write_distribution(together, parallelism).columns == ("dt",)


def test_owner(tmp_path: Path) -> None:
    assert ("Owner", "ann", "") in described_table(make(tmp_path, owner="ann"), ("t",), extended=True)


def test_read_allow_full_scan(tmp_path: Path) -> None:
    table = make(tmp_path, parts="dt")
    for value in ("a", "b"):
        write(table, (1, value, 1, 1))
    guarded = table.with_options({"read.allow.fullScan": "false"})
    with pytest.raises(OptionError, match=r"Full scan is not supported.*condition on its partitions \(dt\)"):
        read(guarded)
    chosen = plan_of(guarded, ROWS, predicate=Leaf("eq", "dt", ("a",)))
    assert sum(len(split.files) for split in chosen.splits) == 1
    assert read(table) == [(1, "a", 1, 1), (1, "b", 1, 1)]
    free = make(tmp_path / "free").with_options({"read.allow.fullScan": "false"})
    write(free, (1, "a", 1, 1))
    assert read(free) == [(1, "a", 1, 1)], "a table without partitions"


@pytest.mark.oracle
def test_a_materialized_table_is_a_table(oracle: Any) -> None:
    name = oracle.fresh_name("effects")
    options = {"type": "materialized-table", "materialized-table.definition-query": "SELECT 1", "bucket": "1"}
    oracle.create(
        name, [("k", "INT NOT NULL"), ("dt", "STRING"), ("v", "INT"), ("g", "INT")], pk=["k"], options=options
    )
    oracle.write(name, [(1, "a", 1, 1), (2, "b", 2, 2)])
    table = load_table(oracle.location(name))
    write(table, (2, "b", 3, 3))
    assert read(table) == sorted(oracle.rows(name)) == [(1, "a", 1, 1), (2, "b", 3, 3)]


def test_scan_mode_given_with_a_read_of_the_catalog(tmp_path: Path) -> None:
    """Spark 4.0 to 4.2 hand options of `spark.read` to the scan only, which does not know yet if it is a stream's."""
    table = make(tmp_path, write_only="true", **{"compaction.min.file-num": "2"})
    for number in range(2):
        write(table, (number, "a", 1, 1))
    compacted = compact(table)
    write(table, (2, "a", 1, 1))
    plan = ScanPlan(table, to_spark_struct(table.schema.fields), given={"scan.mode": "compacted-full"})
    assert isinstance(plan.source, Snapshot)
    assert plan.source.id == compacted == 3
    young = {"scan.file-creation-time-millis": str(2**62)}
    assert ScanPlan(table, to_spark_struct(table.schema.fields), given=young).plan.splits == ()
    with pytest.raises(UnsupportedError, match="belongs to readStream"):
        ScanPlan(table, to_spark_struct(table.schema.fields), given={"consumer-id": "c"}).source  # noqa: B018
