"""Commits of every kind on local disk: what the snapshot says, what lives afterwards, what is refused."""

import json
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.commit.file_store_commit import BATCH, OverwriteSpec, commit
from paimon_spark.errors import CommitConflictError, CommitError, OptionError, PaimonError, UnsupportedError
from paimon_spark.spec.manifest import FileKind
from paimon_spark.table.snapshot_identity import SnapshotIdentity
from paimon_spark.write.message import NewHashes
from tests.support.commits import (
    all_files,
    fake_file,
    live_names,
    make_table,
    message,
    partition_bytes,
    referenced_files,
    snapshot_json,
)

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.fixture
def table(tmp_path):
    return make_table(tmp_path / "t", bucket="-1")


@pytest.fixture
def days(tmp_path):
    return make_table(tmp_path / "days", partition=["dt"], bucket="-1")


@pytest.fixture
def keyed(tmp_path):
    return make_table(tmp_path / "keyed", primary_key=["k"], bucket="2")


def test_the_first_snapshot_has_java_s_fields_in_java_s_order(table):
    assert commit(table, [message(table, fake_file("a", 3), fake_file("b", 4))]) == 1
    found = snapshot_json(table, 1)
    assert list(found) == [
        "version",
        "uuid",
        "id",
        "schemaId",
        "baseManifestList",
        "baseManifestListSize",
        "deltaManifestList",
        "deltaManifestListSize",
        "commitUser",
        "writerVersion",
        "commitIdentifier",
        "commitKind",
        "timeMillis",
        "totalRecordCount",
        "deltaRecordCount",
        "nextRowId",
    ]
    assert UUID.fullmatch(found["uuid"])
    assert UUID.fullmatch(found["commitUser"])
    assert found["writerVersion"].startswith("paimon-spark-")
    fixed = {key: found[key] for key in ("version", "id", "schemaId", "commitIdentifier", "commitKind", "nextRowId")}
    assert fixed == {
        "version": 3,
        "id": 1,
        "schemaId": 0,
        "commitIdentifier": 9223372036854775807,
        "commitKind": "APPEND",
        "nextRowId": 0,
    }
    assert (found["totalRecordCount"], found["deltaRecordCount"]) == (7, 7)
    for which in ("base", "delta"):
        written = Path(table.path, "manifest", found[f"{which}ManifestList"])
        assert found[f"{which}ManifestListSize"] == written.stat().st_size
    assert Path(table.path, "snapshot", "LATEST").read_text() == "1"


def test_appends_add_up(table):
    commit(table, [message(table, fake_file("a", 3))])
    assert commit(table, [message(table, fake_file("b", 4)), message(table, fake_file("c", 5))]) == 2
    assert live_names(table) == ["a", "b", "c"]
    found = snapshot_json(table, 2)
    assert (found["totalRecordCount"], found["deltaRecordCount"]) == (12, 9)
    assert [e.file.file_name for e in table.manifests.live_entries(table.snapshots.get(1))] == ["a"]


def test_an_append_without_changes_makes_no_snapshot_unless_asked_to(table):
    assert commit(table, []) is None
    assert commit(table, [message(table)]) is None
    assert table.snapshots.latest() is None
    assert commit(table, [], ignore_empty=False) == 1
    assert commit(table.with_options({"snapshot.ignore-empty-commit": "false"}), []) == 2
    assert live_names(table) == []


def test_watermark_properties_operation_user_and_identifier_are_written(table):
    commit(
        table,
        [message(table, fake_file("a"))],
        commit_user="u",
        identifier=5,
        watermark=70,
        properties={"x": "y"},
        operation="WRITE",
    )
    first = snapshot_json(table, 1)
    reported = [first[key] for key in ("commitUser", "commitIdentifier", "watermark", "properties", "operation")]
    assert reported == ["u", 5, 70, {"x": "y"}, "WRITE"]
    commit(table, [message(table, fake_file("b"))], watermark=60)
    commit(table, [message(table, fake_file("c"))])
    assert [snapshot_json(table, i)["watermark"] for i in (2, 3)] == [70, 70]
    assert "properties" not in snapshot_json(table, 2)
    commit(table, [message(table, fake_file("d"))], watermark=80)
    assert snapshot_json(table, 4)["watermark"] == 80


def test_the_user_prefix_stands_before_the_uuid(table):
    commit(table.with_options({"commit.user-prefix": "nightly"}), [message(table, fake_file("a"))])
    prefix, _, rest = snapshot_json(table, 1)["commitUser"].partition("_")
    assert prefix == "nightly"
    assert UUID.fullmatch(rest)


def test_a_static_overwrite_replaces_the_table(days):
    commit(days, [message(days, fake_file("a", 3), partition="1"), message(days, fake_file("b", 4), partition="2")])
    assert commit(days, [message(days, fake_file("c", 5), partition="2")], overwrite=OverwriteSpec.static()) == 2
    assert live_names(days) == ["c"]
    found = snapshot_json(days, 2)
    assert (found["commitKind"], found["totalRecordCount"], found["deltaRecordCount"]) == ("OVERWRITE", 5, -2)
    delta = days.manifests.read_manifest(days.manifests.delta_manifests(days.snapshots.latest())[0])
    reported = [(entry.kind, entry.file.file_name) for entry in delta]
    assert reported == [(FileKind.DELETE, "a"), (FileKind.DELETE, "b"), (FileKind.ADD, "c")]


def test_a_static_overwrite_of_one_partition_leaves_the_others(days):
    commit(days, [message(days, fake_file("a"), partition="1"), message(days, fake_file("b"), partition="2")])
    commit(days, [message(days, fake_file("c"), partition="2")], overwrite=OverwriteSpec.static({"dt": "2"}))
    assert live_names(days) == ["a", "c"]
    with pytest.raises(
        CommitError, match=r"The change in dt=1 does not belong to this partition: the overwrite is of dt=2"
    ):
        commit(days, [message(days, fake_file("d"), partition="1")], overwrite=OverwriteSpec.static({"dt": "2"}))
    assert live_names(days) == ["a", "c"]
    with pytest.raises(OptionError, match=r"'day' is no partition column of the table \(its partition columns: dt\)"):
        commit(days, [], overwrite=OverwriteSpec.static({"day": "2"}))


def test_the_null_partition_can_be_overwritten(days):
    commit(days, [message(days, fake_file("a"), partition=None), message(days, fake_file("b"), partition="2")])
    commit(days, [], overwrite=OverwriteSpec.static({"dt": None}))
    assert live_names(days) == ["b"]
    commit(days, [message(days, fake_file("c"), partition=None)])
    commit(days, [], overwrite=OverwriteSpec.static({"dt": "__DEFAULT_PARTITION__"}))
    assert live_names(days) == ["b"]


def test_a_dynamic_overwrite_replaces_the_partitions_of_its_files(days):
    commit(days, [message(days, fake_file(name), partition=name) for name in "123"])
    commit(days, [message(days, fake_file("n"), partition="2")], overwrite=OverwriteSpec.dynamic())
    assert live_names(days) == ["1", "3", "n"]
    assert commit(days, [], overwrite=OverwriteSpec.dynamic()) is None
    assert len(table_ids(days)) == 2


def table_ids(table):
    return table.snapshots.ids()


def test_a_dynamic_overwrite_of_an_unpartitioned_table_replaces_all(table):
    commit(table, [message(table, fake_file("a"))])
    assert commit(table, [], overwrite=OverwriteSpec.dynamic()) == 2
    assert live_names(table) == []


def test_truncate_empties_the_table_or_partitions(days):
    commit(days, [message(days, fake_file(name), partition=name) for name in "1234"])
    commit(days, [], overwrite=OverwriteSpec.truncate({"dt": "1"}, {"dt": "3"}))
    assert live_names(days) == ["2", "4"]
    commit(days, [], overwrite=OverwriteSpec.truncate(), operation="TRUNCATE")
    assert live_names(days) == []
    assert snapshot_json(days, 3)["totalRecordCount"] == 0
    with pytest.raises(CommitError, match="A truncate brings no new files"):
        commit(days, [message(days, fake_file("a"), partition="1")], overwrite=OverwriteSpec.truncate())


def test_an_overwrite_of_an_empty_table_makes_its_first_snapshot(table):
    assert commit(table, [message(table, fake_file("a"))], overwrite=OverwriteSpec.static()) == 1
    assert live_names(table) == ["a"]


def test_overwritten_key_files_go_to_the_top_level_where_they_do_not_overlap(keyed):
    def keys(low, high):
        from paimon_spark.spec.binary_row import serialize_row
        from paimon_spark.spec.data_types import IntType

        types = [IntType(nullable=False)]
        return {"min_key": serialize_row([low], types), "max_key": serialize_row([high], types)}

    apart = message(keyed, fake_file("a", **keys(5, 9)), fake_file("b", **keys(1, 4)), bucket=0)
    over = message(keyed, fake_file("c", **keys(1, 4)), fake_file("d", **keys(4, 9)), bucket=1)
    commit(keyed, [apart, over], overwrite=OverwriteSpec.static())
    levels = {e.file.file_name: e.file.level for e in keyed.manifests.live_entries(keyed.snapshots.latest())}
    assert levels == {"a": 5, "b": 5, "c": 0, "d": 0}
    commit(keyed.with_options({"overwrite-upgrade": "false"}), [apart], overwrite=OverwriteSpec.static())
    assert {e.file.level for e in keyed.manifests.live_entries(keyed.snapshots.latest())} == {0}


def test_a_compaction_is_a_snapshot_of_its_own_and_deletes_what_it_read(keyed):
    old = (fake_file("a", 2), fake_file("b", 3))
    commit(keyed, [message(keyed, *old)])
    new = fake_file("c", 4, level=5)
    assert commit(keyed, [message(keyed, compact_before=old, compact_after=(new,))]) == 2
    assert live_names(keyed) == ["c"]
    found = snapshot_json(keyed, 2)
    assert (found["commitKind"], found["totalRecordCount"], found["deltaRecordCount"]) == ("COMPACT", 4, -1)


def test_rows_and_their_compaction_make_two_snapshots(keyed):
    new = fake_file("a", 2)
    assert commit(keyed, [message(keyed, new, compact_before=(new,), compact_after=(new.upgraded(5),))]) == 2
    assert [snapshot_json(keyed, i)["commitKind"] for i in (1, 2)] == ["APPEND", "COMPACT"]
    assert [e.file.level for e in keyed.manifests.live_entries(keyed.snapshots.latest())] == [5]


def test_changelog_files_have_their_own_manifest_list(keyed):
    changelog = (fake_file("changelog-a", 7),)
    commit(keyed, [message(keyed, fake_file("a", 2), changelog_files=changelog)])
    found = snapshot_json(keyed, 1)
    assert found["changelogRecordCount"] == 7
    assert (
        found["changelogManifestListSize"]
        == Path(keyed.path, "manifest", found["changelogManifestList"]).stat().st_size
    )
    (meta,) = keyed.manifests.changelog_manifests(keyed.snapshots.latest())
    assert [e.file.file_name for e in keyed.manifests.read_manifest(meta)] == ["changelog-a"]
    commit(keyed, [message(keyed, fake_file("b"), changelog_files=changelog)], overwrite=OverwriteSpec.static())
    assert "changelogManifestList" not in snapshot_json(keyed, 2)


def test_a_row_level_change_is_an_overwrite_that_is_checked(table):
    commit(table, [message(table, fake_file("a"), fake_file("b"))])
    commit(table, [message(table, fake_file("a2"), deleted_files=(fake_file("a"),))])
    assert live_names(table) == ["b", "a2"]
    assert snapshot_json(table, 2)["commitKind"] == "OVERWRITE"
    with pytest.raises(CommitConflictError, match="File deletion conflicts detected! Give up committing"):
        commit(table, [message(table, fake_file("a3"), deleted_files=(fake_file("a"),))])
    assert live_names(table) == ["b", "a2"]


def test_a_conflict_leaves_no_file_behind(keyed):
    commit(keyed, [message(keyed, fake_file("a"))])
    before = all_files(keyed, "manifest", "snapshot", "index")
    with pytest.raises(CommitConflictError):
        commit(keyed, [message(keyed, compact_before=(fake_file("x"),), compact_after=(fake_file("y"),))])
    assert all_files(keyed, "manifest", "snapshot", "index") == before


def test_a_failed_compaction_says_that_the_rows_are_in(keyed):
    with pytest.raises(CommitError, match="The rows of this write are committed, as snapshot 1") as caught:
        commit(keyed, [message(keyed, fake_file("a"), compact_before=(fake_file("x"),))])
    assert not isinstance(caught.value, CommitConflictError)  # or the caller would delete the rows' files
    assert live_names(keyed) == ["a"]


def test_hashes_of_new_keys_become_index_files_and_go_with_an_overwrite(tmp_path):
    table = make_table(tmp_path / "t", primary_key=["k", "dt"], partition=["dt"], bucket="-1")
    commit(
        table,
        [
            message(table, fake_file("a"), partition="1", hashes=[3, 1]),
            message(table, fake_file("b"), partition="2", hashes=[5]),
        ],
    )
    commit(
        table,
        [
            message(table, fake_file("c"), partition="1", hashes=[9]),
            message(table, fake_file("d"), partition="1", bucket=1, hashes=[7]),
        ],
    )
    assert hashes(table) == {("1", 0): [1, 3, 9], ("1", 1): [7], ("2", 0): [5]}
    commit(table, [message(table, fake_file("e"), partition="1", hashes=[])])
    assert table.snapshots.get(3).index_manifest == table.snapshots.get(2).index_manifest
    commit(table, [message(table, fake_file("f"), partition="1", hashes=[7])], overwrite=OverwriteSpec.dynamic())
    assert hashes(table) == {("1", 0): [7], ("2", 0): [5]}
    with pytest.raises(CommitConflictError, match="run the write again"):
        commit(table, [message(table, fake_file("g"), partition="2", bucket=1, hashes=[5])])
    commit(table, [], overwrite=OverwriteSpec.truncate())
    assert hashes(table) == {}


def hashes(table):
    names = {partition_bytes(value): value for value in "123"}
    return {
        (names[e.partition], e.bucket): np.fromfile(table.paths.index_path(e.file_name), ">i4").tolist()
        for e in table.manifests.index_entries(table.snapshots.latest())
    }


def test_side_files_of_hashes_are_adopted_or_deleted(tmp_path):
    table = make_table(tmp_path / "t", primary_key=["k"], bucket="-1")
    for bucket, name in enumerate(["index-x-0", "index-x-1"]):
        table.file_io.write_bytes(table.paths.index_path(name), np.array([bucket + 1], ">i4").tobytes())
    sides = [
        replace(message(table, fake_file(name), bucket=bucket), new_index=NewHashes(1, file_name=name, file_size=4))
        for bucket, name in [(0, "index-x-0"), (1, "index-x-1")]
    ]
    commit(table, [sides[0], message(table, fake_file("b"), bucket=1, hashes=[7])])
    commit(table, [sides[1]])
    found = {e.bucket: e.file_name for e in table.manifests.index_entries(table.snapshots.latest())}
    assert found[0] == "index-x-0"
    assert np.fromfile(table.paths.index_path(found[1]), ">i4").tolist() == [7, 2]
    assert all_files(table, "index") == referenced_files(table) - all_files(table, "manifest")


def test_a_replayed_commit_is_applied_once(keyed):
    first = [message(keyed, fake_file("a"))]
    assert commit(keyed, first, commit_user="job", identifier=1) == 1
    assert commit(keyed, first, commit_user="job", identifier=1) == 1
    assert commit(keyed, [message(keyed, fake_file("b"))], commit_user="job", identifier=2) == 2
    assert commit(keyed, first, commit_user="job", identifier=1) == 1
    assert commit(keyed, [message(keyed, fake_file("c"))], commit_user="other", identifier=1) == 3
    assert live_names(keyed) == ["a", "b", "c"]
    for snapshot_id in (1, 2):  # expired: the user's later commit still tells
        Path(keyed.paths.snapshot_path(snapshot_id)).unlink()
    assert commit(keyed, [message(keyed, fake_file("c2"))], commit_user="other", identifier=0) is None


def test_a_replayed_batch_whose_compaction_is_missing_is_finished(keyed):
    new = fake_file("a")
    commit(keyed, [message(keyed, new)], commit_user="job", identifier=1)
    both = [message(keyed, new, compact_before=(new,), compact_after=(new.upgraded(5),))]
    assert commit(keyed, both, commit_user="job", identifier=1) == 2
    assert commit(keyed, both, commit_user="job", identifier=1) == 2
    assert [e.file.level for e in keyed.manifests.live_entries(keyed.snapshots.latest())] == [5]


def test_batch_commits_of_one_user_are_all_applied(table):
    commit(table, [message(table, fake_file("a"))], commit_user="me")
    assert commit(table, [message(table, fake_file("b"))], commit_user="me", identifier=BATCH) == 2


def test_an_append_after_a_rescale_is_refused_if_the_plan_is_older(keyed):
    commit(keyed, [message(keyed, fake_file("a"))])
    planned = SnapshotIdentity.of(keyed.snapshots.latest())
    commit(keyed, [message(keyed, fake_file("b"), buckets=4)], overwrite=OverwriteSpec.static())
    with pytest.raises(
        CommitConflictError, match=r"Total buckets of partition \{\} changed from 4 to 2 without overwrite"
    ):
        commit(keyed, [message(keyed, fake_file("c"))], planned_on=planned)
    assert commit(keyed, [message(keyed, fake_file("c"), buckets=4)], planned_on=planned) == 3


def test_one_commit_has_one_number_of_buckets(keyed):
    with pytest.raises(CommitConflictError, match="Total buckets of partition"):
        commit(keyed, [message(keyed, fake_file("a")), message(keyed, fake_file("b"), buckets=4)])


def test_strict_mode_gives_way_to_other_users_overwrites(days):
    commit(
        days,
        [message(days, fake_file("a"), partition="1"), message(days, fake_file("b"), partition="2")],
        commit_user="x",
    )
    commit(days, [], overwrite=OverwriteSpec.static({"dt": "1"}), commit_user="x")
    strict = days.with_options({"commit.strict-mode.last-safe-snapshot": "1"})
    with pytest.raises(
        CommitConflictError, match=r"has found a OVERWRITE snapshot .id: 2. by another user x which modified the same"
    ):
        commit(strict, [message(days, fake_file("c"), partition="1")], commit_user="y")
    commit(strict, [message(days, fake_file("c"), partition="2")], commit_user="y")
    commit(strict, [message(days, fake_file("d"), partition="1")], commit_user="x")
    strict = days.with_options({"commit.strict-mode.last-safe-snapshot": "2"})
    with pytest.raises(CommitConflictError, match=r"has found a APPEND snapshot .id: 3. by another user y"):
        commit(strict, [], overwrite=OverwriteSpec.static({"dt": "2"}), commit_user="z")


def test_duplicates_are_discarded_if_the_option_says_so(table):
    commit(table, [message(table, fake_file("a"))])
    careful = table.with_options({"commit.discard-duplicate-files": "true"})
    commit(careful, [message(table, fake_file("a"), fake_file("b"))])
    assert live_names(table) == ["a", "b"]


def test_deleted_entries_lose_their_statistics_if_the_option_says_so(table):
    commit(table, [message(table, fake_file("a", value_stats_cols=None))])
    commit(table.with_options({"manifest.delete-file-drop-stats": "true"}), [], overwrite=OverwriteSpec.truncate())
    (meta,) = table.manifests.delta_manifests(table.snapshots.latest())
    (entry,) = table.manifests.read_manifest(meta)
    assert (entry.kind, entry.file.value_stats_cols) == (FileKind.DELETE, ())
    assert live_names(table) == []


def test_row_tracking_numbers_rows_and_stamps_the_snapshot(tmp_path):
    table = make_table(tmp_path / "t", bucket="-1", row_tracking__enabled="true")
    commit(table, [message(table, fake_file("a", 3), fake_file("b", 4))])
    commit(table, [message(table, fake_file("c", 5))])
    files = [e.file for e in table.manifests.live_entries(table.snapshots.latest())]
    assert [(f.file_name, f.first_row_id, f.min_sequence_number, f.max_sequence_number) for f in files] == [
        ("a", 0, 1, 1),
        ("b", 3, 1, 1),
        ("c", 7, 2, 2),
    ]
    assert [snapshot_json(table, i)["nextRowId"] for i in (1, 2)] == [7, 12]
    (meta,) = table.manifests.delta_manifests(table.snapshots.get(1))
    assert (meta.min_row_id, meta.max_row_id) == (0, 6)


def test_statistics_are_inherited_while_the_schema_stays(table):
    commit(table, [message(table, fake_file("a"))])
    reported = {**snapshot_json(table, 1), "statistics": "stat-1"}
    Path(table.paths.snapshot_path(1)).write_text(json.dumps(reported))
    table.file_io.write_bytes(table.paths.statistics_path("stat-1"), b'{"snapshotId":1,"schemaId":0,"colStats":{}}')
    commit(table, [message(table, fake_file("b"))])
    assert snapshot_json(table, 2)["statistics"] == "stat-1"
    table.file_io.write_bytes(
        table.paths.statistics_path("stat-1"), b'{"snapshotId":1,"schemaId":7,"colStats":{}}', overwrite=True
    )
    commit(table, [message(table, fake_file("c"))])
    assert "statistics" not in snapshot_json(table, 3)


@pytest.mark.parametrize(
    "options",
    [
        {"commit.callbacks": "a.B"},
        {"tag.callbacks": "a.B"},
    ],
)
def test_what_a_commit_cannot_do_is_refused_by_name(tmp_path, options):
    (key, value), *_ = options.items()
    table = make_table(tmp_path / "t", bucket="-1", **{key.replace("-", "_").replace(".", "__"): value})
    with pytest.raises(UnsupportedError, match=f"'{key}'"):
        commit(table, [message(table, fake_file("a"))])
    assert table.snapshots.latest() is None


def test_the_hook_sees_every_published_snapshot(keyed):
    new, seen = fake_file("a"), []
    commit(
        keyed, [message(keyed, new, compact_before=(new,), compact_after=(new.upgraded(5),))], after_commit=seen.append
    )
    assert [snapshot.id for snapshot in seen] == [1, 2]


def test_a_message_cannot_smuggle_in_a_hash_index(table):
    from paimon_spark.spec.manifest import HASH_INDEX, IndexManifestEntry

    entry = IndexManifestEntry(FileKind.ADD, bytes(12), 0, HASH_INDEX, "index-1", 4, 1)
    with pytest.raises(PaimonError, match="lists a HASH index file"):
        commit(table, [message(table, fake_file("a"), index_changes=(entry,))])


@pytest.mark.parametrize(("compression", "codec"), [("zstd", b"zstandard"), ("snappy", b"snappy"), ("null", b"null")])
def test_manifests_have_the_compression_that_the_option_says(tmp_path, compression, codec):
    table = make_table(tmp_path / "t", bucket="-1", manifest__compression=compression)
    commit(table, [message(table, fake_file("a"))])
    assert live_names(table) == ["a"]
    for path in Path(table.path, "manifest").iterdir():
        assert b"avro.codec" + bytes([2 * len(codec)]) + codec in path.read_bytes()


def test_a_manifest_rolls_at_the_target_size_and_at_a_thousand_entries(tmp_path):
    table = make_table(tmp_path / "t", bucket="-1", manifest__target_file_size="16 kb", manifest__compression="null")
    names = [f"f{number:05d}" for number in range(4500)]
    commit(table, [message(table, *(fake_file(name) for name in names))])
    metas = table.manifests.delta_manifests(table.snapshots.latest())
    assert [meta.num_added_files for meta in metas] == [1000, 1000, 1000, 1000, 500]
    assert live_names(table) == names


def test_threads_race_in_a_store_without_hard_links():
    table = make_table(f"memory://races/{uuid.uuid4()}/t", bucket="-1")
    patient = table.with_options({"commit.max-retries": "200", "commit.max-retry-wait": "20 ms"})

    def work(number):
        return [commit(patient, [message(table, fake_file(f"w{number}-{turn}"))]) for turn in range(6)]

    with ThreadPoolExecutor(4) as pool:
        made = sorted(made for part in pool.map(work, range(4)) for made in part)
    assert made == table.snapshots.ids() == list(range(1, 25))
    assert sorted(live_names(table)) == sorted(f"w{number}-{turn}" for number in range(4) for turn in range(6))


steps = st.lists(
    st.tuples(
        st.sampled_from(["append", "static", "static-partition", "dynamic", "truncate", "compact"]),
        st.lists(st.sampled_from("123"), max_size=3),
        st.sampled_from("123"),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps, st.integers(2, 6))
def test_any_sequence_of_commits_is_what_a_dict_says(tmp_path_factory, sequence, merge_count):
    table = make_table(
        tmp_path_factory.mktemp("any") / "t",
        partition=["dt"],
        bucket="-1",
        manifest__merge_min_count=str(merge_count),
        manifest__full_compaction_threshold_size="4 kb",
        manifest__target_file_size="2 kb",
    )
    model, names, made = {}, count(), 0
    for kind, partitions, chosen in sequence:
        if kind == "static-partition":
            partitions = [chosen] * len(partitions)
        new = {f"f{next(names)}": partition for partition in partitions}
        messages = [message(table, fake_file(name, 2), partition=partition) for name, partition in new.items()]
        gone: set[str] = set()
        match kind:
            case "append":
                made += commit(table, messages) is not None
            case "static":
                gone = set(model)
                made += commit(table, messages, overwrite=OverwriteSpec.static()) is not None
            case "static-partition":
                gone = {name for name, partition in model.items() if partition == chosen}
                made += commit(table, messages, overwrite=OverwriteSpec.static({"dt": chosen})) is not None
            case "dynamic":
                gone = {name for name, partition in model.items() if partition in partitions}
                made += commit(table, messages, overwrite=OverwriteSpec.dynamic()) is not None
            case "truncate":
                gone, new = set(model), {}
                made += commit(table, [], overwrite=OverwriteSpec.truncate()) is not None
            case "compact":
                gone = {name for name, partition in model.items() if partition == chosen}
                new = {f"f{next(names)}": chosen}
                compacted = message(
                    table,
                    partition=chosen,
                    compact_before=tuple(fake_file(name, 2) for name in sorted(gone)),
                    compact_after=(fake_file(next(iter(new)), 2),),
                )
                made += commit(table, [compacted]) is not None
        model = {name: partition for name, partition in model.items() if name not in gone} | new
        latest = table.snapshots.latest()
        assert sorted(live_names(table)) == sorted(model)
        assert (latest.total_record_count if latest else 0) == 2 * len(model)
    assert table.snapshots.ids() == list(range(1, made + 1))
    assert all_files(table, "manifest") == referenced_files(table)
