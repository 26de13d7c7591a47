"""Spark's own Parquet reader on object stores, with Hadoop's file system: right rows, no secret shown."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import ROOT, absent
from tests.support.hadoop_aws import hadoop_aws_jars
from tests.support.hadoop_gcs import hadoop_gcs_jars
from tests.support.hadoop_stores import hadoop_aliyun_jars, hadoop_azure_jars
from tests.support.programs import run_program
from tests.support.rest_server import rest_server
from tests.support.s3_server import BUCKET, s3_server
from tests.support.store_server import StoreServer
from tests.support.store_servers import SERVERS

pytestmark = [pytest.mark.spark, pytest.mark.thorough]


def google_settings(server: StoreServer) -> dict[str, str]:
    return {
        "fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
        "fs.gs.storage.root.url": server.url,
        "fs.gs.project.id": "p",
        # Hadoop's defaults of these are texts such as 64m, which this connector does not take
        "fs.gs.block.size": str(64 << 20),
        "fs.gs.rewrite.max.chunk.size": str(512 << 20),
        "fs.gs.outputstream.buffer.size": str(8 << 20),
        "fs.gs.inputstream.inplace.seek.limit": str(8 << 20),
        "fs.gs.inputstream.min.range.request.size": str(2 << 20),
        "fs.gs.auth.type": "UNAUTHENTICATED",
        "fs.gs.auth.null.enable": "true",
        "fs.gs.auth.service.account.enable": "false",
    }


def azure_settings(server: StoreServer) -> dict[str, str]:
    """Hadoop's file system speaks to azurite as to an account without directories, at the address of its blobs."""
    (key,) = re.findall("AccountKey=([^;]+)", server.options["fs.connection_string"])
    return {
        "fs.azure.abfs.endpoint": server.url.split("/")[2],
        "fs.azure.always.use.https": "false",
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
        "fs.azure.account.hns.enabled": "false",
        "fs.azure.fns.account.service.type": "BLOB",
        "fs.azure.ingress.service.type": "BLOB",
        "fs.azure.account.key": key,
    }


def oss_settings(server: StoreServer) -> dict[str, str]:
    return {
        "fs.oss.impl": "org.apache.hadoop.fs.aliyun.oss.AliyunOSSFileSystem",
        "fs.AbstractFileSystem.oss.impl": "org.apache.hadoop.fs.aliyun.oss.OSS",
        **{**server.options, "fs.oss.accessKeySecret": "of-the-session"},
    }


JARS_AND_SETTINGS: dict[str, tuple[Callable[[], list[str]], Callable[[StoreServer], dict[str, str]]]] = {
    "gcs": (hadoop_gcs_jars, google_settings),
    "azure": (hadoop_azure_jars, azure_settings),
    "oss": (hadoop_aliyun_jars, oss_settings),
}


@pytest.mark.turns("Hadoop")
def test_s3_is_read_by_spark(tmp_path: Path) -> None:
    try:
        jars = os.pathsep.join(hadoop_aws_jars())
    except (OSError, RuntimeError) as error:
        absent(f"hadoop-aws ({error})")
    with s3_server(tmp_path / "requests") as one, s3_server() as two:
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
    assert "HEAD wh" in found["loaded"]
    late = [[4, "é", 0], [5, "é", 1]]
    assert found["one"] == {"native": True, "rows": late, "hidden": False}
    assert found["ours"] == {"native": False, "rows": late, "hidden": False}
    assert found["odd"] == {"native": False, "rows": late, "hidden": False}  # what Hadoop has no setting for
    assert found["session"] == {"native": True, "rows": late, "hidden": False}
    other = [[4, "é", 1], [5, "é", 0], [6, "é", 1]]
    assert found["two"] == {"native": True, "rows": other, "hidden": False}  # a bucket of the same name elsewhere
    assert found["vectors"] == {"native": True, "rows": [[k, "a b=ü"] for k in (3, 4, 5)], "hidden": False}
    assert found["paths"] == {"native": True, "rows": [["s3://warehouse/wh/"]], "hidden": False}
    merged = [[0, "old"], [1, "old"], [2, "new"], [3, "new"], [4, "new"]]
    assert found["merged"] == [{"native": native, "rows": merged, "hidden": False} for native in (False, True)]
    assert len(found["stream"]["rows"]) == 6
    assert found["checkpoint"] == [6, 7]
    assert found["migrated"] == [0, 1, 2, 3]
    assert found["called"] == {"parquet": [0, 1, 2, 3], "left of parquet": [], "csv": [0, 1, 2, 3], "left of csv": []}
    assert found["logged"]["debug"] > 10_000
    assert not found["logged"]["hidden"]
    assert found["told"] == []  # of the secret
    assert found["shows"] == {"java": True, "events": True}
    assert max(found["requests"][1:]) <= 14  # 4 files, a footer and the columns of each at most
    assert "exchanged for another" in found["exchanged"]["error"]


@pytest.mark.turns("Hadoop")
def test_format_tables_are_on_s3(tmp_path: Path) -> None:
    """Made, filled, read and overwritten by Spark's own sources with the options of the catalog."""
    with s3_server() as server:
        hadoop = {
            "fs.s3a.endpoint": server.url,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": "key",
            "fs.s3a.secret.key": "of-the-server",
        }
        try:
            jars = hadoop_aws_jars()
            with rest_server(f"s3a://{BUCKET}/rest", more_jars=jars, hadoop=hadoop) as rest:
                given = [os.pathsep.join(jars), str(tmp_path), server.url, json.dumps(rest.options())]
                program = [sys.executable, "-X", "faulthandler", "-m", "tests.spark.s3a_program", *given]
                done = run_program(program, tmp_path, {**os.environ, "PYTHONPATH": str(ROOT)})
        except (OSError, RuntimeError) as error:
            absent(f"hadoop-aws or Java's REST server ({error})")
    assert done.code == 0, done.err[-3000:]
    after = [[[1, "a", 1], [2, "b", 2]], [[3, "é"]], [[1, "a", 1], [3, "é", 2]]]
    found = json.loads((tmp_path / "found.json").read_text())
    assert found == dict.fromkeys(("csv", "json", "orc", "parquet"), after)


@pytest.mark.turns("Hadoop")
@pytest.mark.parametrize("store", ["gcs", "azure", "oss"])
def test_a_store_is_read_by_spark(tmp_path: Path, store: str) -> None:
    fetch, settings = JARS_AND_SETTINGS[store]
    try:
        jars = os.pathsep.join(fetch())
    except (OSError, RuntimeError) as error:
        absent(f"Hadoop's file system of {store} ({error})")
    with SERVERS[store]() as one, SERVERS[store]() as two:
        options = {key: value.replace("hidden", "hidden-of-two") for key, value in two.options.items()}
        secrets = re.findall("hidden-of-two|(?<=AccountKey=)[^;]+", str(options))
        bucket = one.root.removesuffix("/wh").replace("abfss:", "abfs:")  # azurite speaks no TLS here
        given = {"jars": jars, "settings": settings(one), "bucket": bucket, "secrets": secrets}
        (tmp_path / "given.json").write_text(json.dumps({**given, "options": options}))
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        program = [sys.executable, "-m", "tests.spark.native_store_program", str(tmp_path / "given.json")]
        done = run_program(program, tmp_path, environment)
    assert done.code == 0, done.err[-3000:]
    assert len(secrets) == (store != "gcs")
    found = json.loads((tmp_path / "found.json").read_text())
    assert found == {
        "one.a": {"native": True, "rows": [[k, f"ä b={k % 2}"] for k in (0, 1, 2, 4, 5)]},
        "two.a": {"native": True, "rows": [[k, f"ä b={k % 2}"] for k in (10, 11, 12, 14, 15)]},  # the other server
        "one.k": {"native": True, "rows": [[3, "x"], [4, "x"]]},
        "two.k": {"native": True, "rows": [[13, "x"], [14, "x"]]},
        "checkpoint": [5, 6],
        "migrated": [0, 1, 2, 3],
        "told": [],  # of the secrets
        "shows": {"java": True, "events": True},
        **({name: found[name.replace("wasb", "a")] for name in ("one.wasb", "two.wasb")} if store == "azure" else {}),
    }
