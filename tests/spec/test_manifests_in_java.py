"""Java reads what we encode: golden tables whose every metadata file we decoded and wrote again."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.spec.avro_codec import (
    decode_index_manifest,
    decode_manifest,
    decode_manifest_list,
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
)

TABLES = [
    "append_dv_v1",
    "pk_dynamic_bucket",
    "file_index_embedded",
    "row_tracking",
    "stats_truncate4_pk",
    "changelog_full_compaction",
    "old_schema_version_2_pk",
]


def rewrite(table: Path) -> int:
    """Decode and encode every metadata file in place, with the new sizes where Java keeps sizes."""
    files = sorted((table / "manifest").iterdir(), key=lambda f: f.name.startswith("manifest-list-"))
    for file in files:
        data = file.read_bytes()
        if file.name.startswith("index-manifest-"):
            file.write_bytes(encode_index_manifest(decode_index_manifest(data)))
        elif file.name.startswith("manifest-list-"):
            metas = decode_manifest_list(data)
            present = {f.name: f.stat().st_size for f in files}
            metas = [dataclasses.replace(m, file_size=present.get(m.file_name, m.file_size)) for m in metas]
            file.write_bytes(encode_manifest_list(metas))
        else:
            file.write_bytes(encode_manifest(decode_manifest(data)))
    for file in [*table.glob("snapshot/snapshot-*"), *table.glob("tag/tag-*")]:
        snapshot = json.loads(file.read_text())
        for kind in ("base", "delta", "changelog"):
            name = snapshot.get(f"{kind}ManifestList")
            if name is not None and f"{kind}ManifestListSize" in snapshot:
                snapshot[f"{kind}ManifestListSize"] = (table / "manifest" / name).stat().st_size
        file.write_text(json.dumps(snapshot))
    return len(files)


@pytest.mark.oracle
@pytest.mark.parametrize("name", TABLES)
def test_java_reads_our_metadata(name: str, golden: Path, oracle: Any, tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    shutil.copytree(golden / name / "table", before)
    shutil.copytree(golden / name / "table", after)
    assert rewrite(after) > 4
    rows = sorted(map(str, oracle.read(str(before)).to_pylist()))
    assert rows
    assert sorted(map(str, oracle.read(str(after)).to_pylist())) == rows
    for system in ("$files", "$manifests", "$partitions"):
        old, new = (oracle.read(f"{path}{system}").to_pylist() for path in (before, after))
        for row in (*old, *new):  # what must differ: the table's place and the manifests' sizes
            row.pop("file_path", None)
            if system == "$manifests":
                row.pop("file_size")
        assert sorted(map(str, new)) == sorted(map(str, old)), system


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["many_manifests_pk", "overwrite_history_append"])
def test_java_merges_our_manifests(name: str, golden: Path, oracle: Any) -> None:
    """Compaction of the manifests copies our Avro blocks or decodes them; the rows stay."""
    table = Path(oracle.warehouse) / "db.db" / f"rewritten_{name}"
    shutil.copytree(golden / name / "table", table)
    rows = sorted(map(str, oracle.read(str(table)).to_pylist()))
    assert rewrite(table) > 4
    oracle.compact_manifests(f"db.rewritten_{name}")
    assert sorted(map(str, oracle.read(str(table)).to_pylist())) == rows
    latest = max(table.glob("snapshot/snapshot-*"), key=lambda f: int(f.name.split("-")[1]))
    snapshot = json.loads(latest.read_text())
    assert snapshot["commitKind"] == "COMPACT"
    metas = decode_manifest_list((table / "manifest" / snapshot["baseManifestList"]).read_bytes())
    assert metas
    assert all(decode_manifest((table / "manifest" / meta.file_name).read_bytes()) for meta in metas)
