"""Spark's own Parquet reader on S3 and Google Cloud Storage, with Hadoop's file system: right rows, no secret shown."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from conftest import ROOT, absent
from paimon_spark.storage.file_io import FileIO
from tests.support.hadoop_aws import hadoop_aws_jars
from tests.support.hadoop_gcs import hadoop_gcs_jars
from tests.support.programs import run_program
from tests.support.s3_server import s3_server
from tests.support.store_server import BUCKET
from tests.support.store_servers import store_server

pytestmark = [pytest.mark.spark, pytest.mark.thorough]


def test_s3_is_read_by_spark(tmp_path: Path) -> None:
    try:
        jars = os.pathsep.join(hadoop_aws_jars())
    except (OSError, RuntimeError) as error:
        absent(f"hadoop-aws ({error})")
    with s3_server() as one, s3_server() as two:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "AWS_ENDPOINT_URL": one.url,  # for reads without options
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "hidden",
        }
        program = [sys.executable, "-X", "faulthandler", "-m", "tests.spark.s3a_program"]
        done = run_program([*program, jars, str(tmp_path), one.url, two.url], tmp_path, environment)
    assert done.code == 0, done.err[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    late = [[4, "é", 0], [5, "é", 1]]
    assert found["one"] == {"native": True, "rows": late, "hidden": False}
    assert found["ours"] == {"native": False, "rows": late, "hidden": False}
    assert found["odd"] == {"native": False, "rows": late, "hidden": False}  # what Hadoop has no setting for
    assert found["session"] == {"native": True, "rows": late, "hidden": False}
    other = [[4, "é", 1], [5, "é", 0], [6, "é", 1]]
    assert found["two"] == {"native": True, "rows": other, "hidden": False}  # a bucket of the same name elsewhere
    assert found["vectors"] == {"native": True, "rows": [[k, "a b=ü"] for k in (3, 4, 5)], "hidden": False}
    assert found["paths"] == {"native": True, "rows": [["s3://warehouse/wh/"]], "hidden": False}
    assert len(found["stream"]["rows"]) == 6
    assert found["checkpoint"] == [6, 7]
    assert found["migrated"] == [0, 1, 2, 3]
    assert found["logged"]["debug"] > 10_000
    assert not found["logged"]["hidden"]
    assert "exchanged for another" in found["exchanged"]["error"]


@pytest.mark.parametrize("store", ["gcs"])
def test_google_is_read_by_spark(tmp_path: Path, store: str) -> None:
    try:
        jars = os.pathsep.join(hadoop_gcs_jars())
    except (OSError, RuntimeError) as error:
        absent(f"gcs-connector ({error})")
    with store_server(store) as server:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        program = [sys.executable, "-m", "tests.spark.gcs_program", jars, str(tmp_path / "found.json"), server.url]
        done = run_program(program, tmp_path, environment)
        for folder in ("source", "checkpoints"):
            FileIO.for_path(server.root, server.options).delete_quietly(f"gs://{BUCKET}/{folder}", recursive=True)
    assert done.code == 0, done.err[-3000:]
    assert json.loads((tmp_path / "found.json").read_text()) == {
        "native": True,
        "rows": [[2, "ä b=0"], [4, "ä b=0"], [5, "ä b=1"]],
        "checkpoint": [5, 6],
        "migrated": [0, 1, 2, 3],
    }
