"""What follows a commit, and what is run again after one that lost, on tables that lie on stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pytest

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.commit.run_again import run_again
from paimon_spark.errors import CommitConflictError
from paimon_spark.maintain.after_commit import maintenance
from paimon_spark.maintain.expire.partitions import expire_partitions
from paimon_spark.spec.data_types import DataField, VarCharType
from paimon_spark.spec.schema import create_schema
from paimon_spark.table.consumer_store import ConsumerStore
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.table.table import FileStoreTable
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.store_servers import SERVERS, store_server
from tests.support.store_tables import FIELDS, rows_of

_DAYS = {1: "2020-01-01", 2: "2020-01-02", 3: "9999-09-09"}
_QUICK = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "1 ms"}


@pytest.fixture(scope="module", params=sorted(SERVERS))
def catalog(request: pytest.FixtureRequest) -> Iterator[FilesystemCatalog]:
    with store_server(request.param) as server:
        yield FilesystemCatalog(server.root, {**server.options, **_QUICK})


@pytest.fixture
def database(catalog: FilesystemCatalog) -> Iterator[str]:
    catalog.create_database("d")
    yield "d"
    catalog.drop_database("d", cascade=True)


def made(catalog: FilesystemCatalog, database: str, **options: str) -> FileStoreTable:
    """A table of three days, a row and a snapshot each."""
    fields = [*FIELDS, DataField(2, "dt", VarCharType(length=10))]
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    schema = create_schema(fields, ["k", "dt"], ["dt"], {"bucket": "1", **named})
    catalog.create_table(database, "t", schema)
    table = catalog.load_table(database, "t")
    for key, day in _DAYS.items():
        write(table, {key: key}, day)
    return table


def write(
    table: FileStoreTable,
    rows: Mapping[int, int],
    day: str,
    *,
    read: SnapshotIdentity | None = None,
    maintained: bool = False,
) -> int | None:
    columns = {"k": pa.array(list(rows), pa.int32()), "v": pa.array(list(rows.values()), pa.int32())}
    batch = pa.RecordBatch.from_pydict({**columns, "dt": pa.array([day] * len(rows))})
    plan = plan_write(table, data_schema=batch.schema, rows_of=read)
    done = write_batches(plan, iter([batch]), 0)
    then = maintenance(table) if maintained else None
    return commit(table, [done], planned_on=plan.snapshot, rows_read=plan.rows_read, after_commit=then)


def files_of(table: FileStoreTable, directory: str) -> set[str]:
    return {entry.name for entry in table.file_io.list_names(directory) if not entry.is_dir}


def test_a_commit_that_lost_is_run_again(catalog: FilesystemCatalog, database: str) -> None:
    """From a fresh read; nothing of the attempt that lost is left."""
    table = made(catalog, database)
    seen = []

    def attempt(_: object) -> int | None:
        seen.append(rows_of(table)[3])
        latest = table.snapshots.latest()
        assert latest is not None
        if len(seen) < 3:
            write(table, {3: 10 * len(seen)}, _DAYS[3])
        return write(table, {3: seen[-1] + 1}, _DAYS[3], read=SnapshotIdentity.of(latest))

    assert run_again(table, attempt) == 6
    assert seen == [3, 10, 20]
    assert rows_of(table) == {1: 1, 2: 2, 3: 21}
    of_rivals = table.snapshots.ids()
    assert of_rivals == [1, 2, 3, 4, 5, 6]
    few = table.with_options({"commit.max-retries": "1"})

    def beaten(_: object) -> None:
        latest = few.snapshots.latest()
        assert latest is not None
        write(few, {3: 0}, _DAYS[3])
        write(few, {3: 1}, _DAYS[3], read=SnapshotIdentity.of(latest))

    with pytest.raises(CommitConflictError, match="was run 2 times"):
        run_again(few, beaten)
    assert rows_of(table) == {1: 1, 2: 2, 3: 0}
    named = {
        meta.file_name
        for number in table.snapshots.ids()
        for meta in table.manifests.data_manifests(table.snapshots.get(number))
    }
    kept = {
        name
        for name in files_of(table, f"{table.path}/manifest")
        if name.startswith("manifest-") and "list" not in name
    }
    assert kept <= named


def test_partitions_expire(catalog: FilesystemCatalog, database: str) -> None:
    table = made(catalog, database, partition__expiration_time="1 d")
    assert expire_partitions(table) == [{"dt": "2020-01-01"}, {"dt": "2020-01-02"}]
    assert rows_of(table) == {3: 3}
    assert expire_partitions(table) == []
    latest = table.snapshots.latest()
    assert latest is not None
    assert (latest.id, latest.commit_kind.value) == (4, "OVERWRITE")


def test_what_follows_a_commit(catalog: FilesystemCatalog, database: str) -> None:
    """Partitions, consumers and snapshots expire, a tag is made; the files of what has expired are gone."""
    table = made(catalog, database, tag__automatic_creation="batch", tag__create_success_file="true")
    ConsumerStore(table.file_io, table.paths).reset("c", 1)
    old = files_of(table, f"{table.path}/dt=2020-01-01/bucket-0")
    assert len(old) == 1
    eager = table.with_options(
        {
            "partition.expiration-time": "1 d",
            "end-input.check-partition-expire": "true",
            "consumer.expiration-time": "1 ms",
            "snapshot.num-retained.min": "1",
            "snapshot.num-retained.max": "1",
            "snapshot.time-retained": "1 ms",
        }
    )
    assert write(eager, {4: 4}, _DAYS[3], maintained=True) == 4
    assert rows_of(table) == {3: 3, 4: 4}
    assert ConsumerStore(table.file_io, table.paths).min_next_snapshot() is None
    assert table.snapshots.ids() == [5]
    (tag,) = table.tags.names()
    assert table.tags.get(tag).snapshot.id == 5  # after the partitions have expired
    assert files_of(table, f"{table.paths.tag_dir}/tag-success-file") == {f"{tag}_SUCCESS"}
    assert not files_of(table, f"{table.path}/dt=2020-01-01/bucket-0") & old
