"""An attack on everything that deletes and writes: links, options and manifests that lead out of the table."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_spark.commit.file_store_commit import OverwriteSpec, commit
from paimon_spark.errors import CorruptTableError, OptionError, PaimonError
from paimon_spark.maintain.expire.snapshots import expire_snapshots, retain_latest_only
from paimon_spark.maintain.files.orphan_files import remove_orphan_files
from paimon_spark.maintain.purge import purge_files
from paimon_spark.maintain.refs import branches, rollback, tags
from paimon_spark.spec import avro_codec
from paimon_spark.storage.confinement import confined
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table import consumer_store
from paimon_spark.table.consumer_store import ConsumerStore
from paimon_spark.table.table import FileStoreTable, load_table
from tests.support.commits import data_file, make_table, message
from tests.support.history import rows

LONG_AGO = 1_500_000_000


def grow_old(*roots: Path | str) -> None:
    for root in roots:
        for path in Path(root).rglob("*"):
            os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A directory of somebody else that looks like parts of a table."""
    root = tmp_path / "victim"
    for name in ("bucket-0/data-1.parquet", "dt=y/bucket-0/data-2.parquet", "manifest-1", "snapshot-9", "tag-x", "f"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("mine")
    (root / "bucket-7").mkdir()
    grow_old(tmp_path)
    return root


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three snapshots, each with a partition that replaces the one before; a branch, a tag and a consumer."""
    made = make_table(tmp_path_factory.mktemp("template") / "t", partition=["dt"], bucket="-1")
    for number, value in enumerate("abc", start=1):
        file = data_file(made, {number: value}, partition=value)
        commit(made, [message(made, file, partition=value)], overwrite=OverwriteSpec.static())
    tags.create_tag(made, "second", snapshot_id=2)
    branches.create_branch(made, "br", tag="second")
    ConsumerStore(made.file_io, made.paths).reset("c", 3)
    return Path(made.path)


@pytest.fixture
def table(template: Path, tmp_path: Path) -> FileStoreTable:
    """A copy of the template."""
    shutil.copytree(template, tmp_path / "wh" / "t")
    return load_table(str(tmp_path / "wh" / "t"))


def link(table: FileStoreTable, location: str, victim: Path) -> None:
    """Move a directory of the table to somebody else's and put a link in its place; to all of that where none is."""
    path = Path(table.path) / location
    target = victim
    if path.exists():
        target = victim / f"moved-{path.name}"
        path.rename(target)
    path.symlink_to(target)


DEEDS: dict[str, Callable[[FileStoreTable], object]] = {
    "orphans": remove_orphan_files,
    "expire": lambda table: expire_snapshots(table, retain_latest_only()),
    "delete_branch": lambda table: branches.delete_branch(table, "br"),
    "delete_tag": lambda table: tags.delete_tag(table, "second"),
    "rename_tag": lambda table: table.tags.rename("second", "x"),
    "create_tag": lambda table: tags.create_tag(table, "new"),
    "replace_tag": lambda table: tags.replace_tag(table, "second", snapshot_id=3),
    "create_branch": lambda table: branches.create_branch(table, "new", tag="second"),
    "rename_branch": lambda table: branches.rename_branch(table, "br", "new"),
    "rollback": lambda table: rollback.rollback_to_snapshot(table, 1),
    "consumers": consumer_store.clear_consumers,
    "reset_consumer": lambda table: consumer_store.reset_consumer(table, "c", 1),
    "truncate": lambda table: commit(table, [], overwrite=OverwriteSpec.truncate()),
    "purge": purge_files,
}
LOCATIONS = (
    *("dt=a", "dt=a/bucket-0", "dt=z", "manifest", "snapshot", "tag", "branch", "schema", "consumer", "changelog"),
    *("branch/branch-br", "branch/branch-br/snapshot", "index"),
)


@pytest.mark.parametrize("location", LOCATIONS)
@pytest.mark.parametrize("deed", DEEDS)
def test_no_link_lets_anything_be_deleted_or_written_elsewhere(
    table: FileStoreTable, victim: Path, deed: str, location: str
) -> None:
    link(table, location, victim)
    grow_old(table.path, victim)
    before = contents(victim)
    with contextlib.suppress(PaimonError, OSError):  # whether it can be done without that directory is not asked here
        DEEDS[deed](table)
    assert contents(victim) == before
    assert (victim / "bucket-7").is_dir()


def test_a_link_to_the_tables_own_copy_elsewhere_is_left_with_a_warning(
    table: FileStoreTable, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = tmp_path / "disk2" / "dt=a"
    elsewhere.parent.mkdir()
    (Path(table.path) / "dt=a").rename(elsewhere)
    (Path(table.path) / "dt=a").symlink_to(elsewhere)
    tags.delete_tag(table, "second")
    branches.delete_branch(table, "br")
    assert rows(table, snapshot_id=1) == {1: "a"}  # readers follow links
    assert consumer_store.clear_consumers(table) == ["c"]
    assert expire_snapshots(table, retain_latest_only()) == 2
    assert list(elsewhere.rglob("*.parquet"))
    assert "which is not below the table" in caplog.text
    with pytest.raises(PaimonError, match="leads out of the table"):
        table.file_io.open_output(f"{table.path}/dt=a/bucket-0/data-new.parquet")


def test_a_table_that_is_a_link_itself_works(table: FileStoreTable, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(table.path)
    linked = load_table(str(tmp_path / "linked"))
    file = data_file(linked, {4: "d"}, partition="d")
    commit(linked, [message(linked, file, partition="d")], overwrite=OverwriteSpec.static())
    ConsumerStore(linked.file_io, linked.paths).delete("c")
    assert expire_snapshots(linked, retain_latest_only()) == 3
    assert rows(table) == {4: "d"}
    branches.delete_branch(linked, "br")
    assert not (Path(table.path) / "branch" / "branch-br").exists()


def change_schema(table: FileStoreTable, **options: str) -> FileStoreTable:
    """Write options into the schema file, as no engine of ours would, and open the table again."""
    path = Path(table.paths.schema_path(0))
    schema = json.loads(path.read_text())
    schema["options"] |= {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    path.write_text(json.dumps(schema))
    return load_table(table.path)


def name_external(table: FileStoreTable, external: str) -> None:
    """Let every manifest say that the data files are elsewhere; ``{name}`` stands for their names. Sizes follow."""
    sizes = {}
    manifests = Path(table.path, "manifest")
    for path in manifests.glob("manifest-[0-9a-f]*"):
        entries = avro_codec.decode_manifest(path.read_bytes())
        moved = [
            replace(e, file=replace(e.file, external_path=external.format(name=e.file.file_name))) for e in entries
        ]
        sizes[path.name] = path.write_bytes(avro_codec.encode_manifest(moved))
    for path in manifests.glob("manifest-list-*"):
        metas = avro_codec.decode_manifest_list(path.read_bytes())
        sized = [replace(meta, file_size=sizes[meta.file_name]) for meta in metas]
        sizes[path.name] = path.write_bytes(avro_codec.encode_manifest_list(sized))
    for path in (*Path(table.path).rglob("snapshot-*"), *Path(table.path).rglob("tag-*")):
        reported = json.loads(path.read_text())
        reported |= {f"{kind}ManifestListSize": sizes[reported[f"{kind}ManifestList"]] for kind in ("base", "delta")}
        path.write_text(json.dumps(reported))


@pytest.mark.parametrize("directory", ["../../victim", "../../../victim", "/victim", ".."])
def test_a_directory_outside_is_refused_before_anything_is_done(
    table: FileStoreTable, victim: Path, directory: str
) -> None:
    before = contents(victim)
    opened = change_schema(table, data_file__path_directory=directory.replace("/victim", str(victim)))
    for deed in (remove_orphan_files, rows):
        with pytest.raises(OptionError, match=r"'data-file\.path-directory'"):
            deed(opened)
    assert contents(victim) == before


@pytest.mark.parametrize("root", ["/", "file:///", "file:/"])
def test_a_root_is_no_external_path(table: FileStoreTable, victim: Path, root: str) -> None:
    name_external(table, f"file:{victim}/{{name}}")
    with pytest.raises(OptionError, match="whole file system"):
        expire_snapshots(change_schema(table, data_file__external_paths=root), retain_latest_only())
    assert (victim / "f").read_text() == "mine"


def test_what_the_table_lies_in_is_no_location_to_delete_in(table: FileStoreTable, victim: Path) -> None:
    named = [victim / f"{number}" / path.name for number, path in enumerate(Path(table.path).rglob("data-*.parquet"))]
    for path in named:
        (victim / path.name).write_text("mine")
    name_external(table, f"file:{victim}/{{name}}")
    opened = change_schema(table, data_file__external_paths=f"file:{victim.parent}")
    ConsumerStore(opened.file_io, opened.paths).delete("c")
    assert expire_snapshots(opened, retain_latest_only()) == 2
    assert all((victim / path.name).exists() for path in named)


def test_another_table_is_no_external_path_of_this_one(table: FileStoreTable, tmp_path: Path) -> None:
    other = make_table(tmp_path / "other" / "t", partition=["dt"], bucket="-1")
    file = data_file(other, {1: "x"}, partition="a")
    commit(other, [message(other, file, partition="a")])
    leftover = Path(other.path, "dt=a/bucket-0/data-leftover.parquet")
    leftover.write_text("being written")
    grow_old(other.path, table.path)
    for root in (other.path, f"{other.path}/dt=a"):
        opened = change_schema(table, data_file__external_paths=f"file:{root}")
        remove_orphan_files(opened)
        assert leftover.exists()
        assert rows(other) == {1: "x"}


def test_an_external_path_of_its_own_is_cleaned(table: FileStoreTable, tmp_path: Path) -> None:
    own = tmp_path / "ext" / "t"
    bucket = own / "dt=a" / "bucket-0"
    bucket.mkdir(parents=True)
    for path in Path(table.path).rglob("data-*.parquet"):
        path.rename(bucket / path.name)
    (bucket / f"data-{uuid.uuid4()}-0.parquet").write_text("left")
    name_external(table, f"file:{bucket}/{{name}}")
    opened = change_schema(table, data_file__external_paths=f"file://{own}/")
    assert rows(opened) == {3: "c"}
    grow_old(own, table.path)
    assert remove_orphan_files(opened).file_count == 1
    ConsumerStore(opened.file_io, opened.paths).delete("c")
    branches.delete_branch(opened, "br")
    tags.delete_tag(opened, "second")
    assert expire_snapshots(opened, retain_latest_only()) == 2
    assert len(list(own.rglob("*.parquet"))) == 1
    assert rows(opened) == {3: "c"}


@pytest.mark.parametrize(
    ("root", "names", "goes"),
    [
        ("ext/t", "dt=a/bucket-0/{name}", True),
        ("ext/t", "{name}", False),  # nothing that a writer makes lies there
        ("ext/all", "dt=a/bucket-0/{name}", False),  # whose it is, nothing tells
        ("ext/other/t", "dt=a/bucket-0/{name}", False),  # another table of this name
        ("ext/t", "inner/dt=a/bucket-0/{name}", False),  # another table below it
    ],
)
@pytest.mark.parametrize("allowed", [False, True])
def test_where_expiry_deletes_files_outside(
    table: FileStoreTable, tmp_path: Path, root: str, names: str, *, goes: bool, allowed: bool
) -> None:
    """A hostile table names any directory as its external path, and files there in its manifests."""
    location = tmp_path / root
    for own in ("ext/other/t", "ext/t/inner"):
        (tmp_path / own / "schema").mkdir(parents=True)
        (tmp_path / own / "schema" / "schema-0").write_text("{}")
    named = [path.name for path in Path(table.path).rglob("data-*.parquet")]
    for name in named:
        path = location / names.format(name=name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("somebody's")
    name_external(table, f"file:{location}/{names}")
    key = "external-paths.may-delete"
    change_schema(table, data_file__external_paths=f"file:{location}", **{key: f"file:{location}"})
    opened = load_table(table.path, options={key: f"file:{location}"} if allowed else {})
    assert opened.options.to_dict().get(key) == (f"file:{location}" if allowed else None)
    ConsumerStore(opened.file_io, opened.paths).delete("c")
    branches.delete_branch(opened, "br")
    tags.delete_tag(opened, "second")
    assert expire_snapshots(opened, retain_latest_only()) == 2
    left = sum((location / names.format(name=name)).exists() for name in named)
    if goes or (allowed and root == "ext/all"):
        assert left == 1
    else:
        assert left == len(named)


def test_files_of_any_other_name_stay(table: FileStoreTable, tmp_path: Path) -> None:
    """Of a whole directory that a hostile table names, bucket and all."""
    location = tmp_path / "ext" / "t" / "bucket-0"
    location.mkdir(parents=True)
    victims = [location / name for name in ("id_rsa", "passwords.db", "data-1.parquet", ".ssh")]
    for victim in victims:
        victim.write_text("mine")
    change_schema(table, data_file__external_paths=f"file:{location.parent}")
    io = load_table(table.path).file_io
    assert io.delete_files([f"file:{victim}" for victim in victims]) == [f"file:{victim}" for victim in victims]
    assert not any(io.delete_quietly(f"file:{victim}") for victim in victims)
    assert not io.delete_quietly(f"file:{location}", recursive=True)
    assert all(victim.exists() for victim in victims)


def test_an_external_path_in_another_store_says_so(table: FileStoreTable) -> None:
    name_external(table, "s3://bucket/t/{name}")
    with pytest.raises(PaimonError, match="another store"):
        rows(change_schema(table, data_file__external_paths="s3://bucket/t"))


@pytest.mark.parametrize("name", ["../../victim/f", "..", "/etc/passwd", "a/b", ""])
@pytest.mark.parametrize("field", ["baseManifestList", "deltaManifestList", "indexManifest", "statistics"])
def test_names_in_a_snapshot_lead_nowhere(table: FileStoreTable, victim: Path, field: str, name: str) -> None:
    before = contents(victim)
    path = Path(table.paths.snapshot_path(1))
    path.write_text(json.dumps({**json.loads(path.read_text()), field: name}))
    ConsumerStore(table.file_io, table.paths).delete("c")
    with pytest.raises(PaimonError, match="is not the name of a file of this table"):
        expire_snapshots(table, retain_latest_only())
    grow_old(table.path)
    if field != "statistics":  # whose name alone counts there
        with pytest.raises(CorruptTableError, match="is not the name of a file of this table"):
            remove_orphan_files(table)
    assert contents(victim) == before


def test_stores_without_links_are_confined_by_names(tmp_path: Path) -> None:
    store = confined(FileIO.for_path("memory://x"), "memory://wh/t", ["memory://ext/t", "memory://", "memory://wh"])
    free = FileIO.for_path("memory://x")
    outside = f"memory://ext/t/bucket-0/data-{uuid.uuid4()}-0.parquet"
    paths = ["memory://wh/t/a", outside, "memory://wh/t2/a", "memory://wh/a", "memory://wh/t/../a"]
    for path in paths[:-1]:
        free.write_bytes(path, b"x", overwrite=True)
    assert store.delete_files(paths) == paths[2:]
    assert [free.exists(path) for path in paths[:-1]] == [False, False, True, True]
    for path in paths[2:]:
        assert not store.delete_quietly(path)
        for write in (store.open_output, store.mkdirs, lambda p: store.write_bytes(p, b""), store.delete_quietly):
            if write != store.delete_quietly:
                with pytest.raises(PaimonError, match="is not written"):
                    write(path)
        with pytest.raises(PaimonError, match="is not written"):
            store.create_exclusive(path, b"")
        with pytest.raises(PaimonError, match="is not written"):
            store.rename("memory://wh/t/a", path)
