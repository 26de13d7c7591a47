"""A session that reaches its store by Hadoop's settings reaches Paimon's tables there without an option of ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark import PaimonTable
from paimon_spark.errors import PaimonError
from tests.support.s3_server import BUCKET, S3Server, s3_server

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
HIDDEN = "hidden-of-the-session"


@pytest.fixture(scope="module")
def server(spark: SparkSession) -> Iterator[S3Server]:
    """A server that only the Hadoop configuration of the session knows."""
    with s3_server() as running:
        hadoop = spark.sparkContext._jsc.hadoopConfiguration()
        settings = {
            "fs.s3a.endpoint": "http://127.0.0.1:1",  # another bucket's
            f"fs.s3a.bucket.{BUCKET}.endpoint": running.url,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": "of-session",
            "fs.s3a.secret.key": HIDDEN,
        }
        for key, value in settings.items():
            hadoop.set(key, value)
        yield running
        for key in settings:
            hadoop.unset(key)


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_every_way_to_a_table(
    spark: SparkSession, server: S3Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    session = spark.newSession()
    paimon_spark.register_catalog(session, "reached", warehouse=f"s3a://{BUCKET}/wh")
    session.sql("CREATE DATABASE reached.d")
    session.sql("CREATE TABLE reached.d.t (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key'='k', 'bucket'='2')")
    session.sql("INSERT INTO reached.d.t VALUES (1, 'a'), (2, 'b')")
    session.sql("DELETE FROM reached.d.t WHERE k = 1")
    path, target = f"s3a://{BUCKET}/wh/d.db/t", f"s3a://{BUCKET}/wh/d.db/copied"
    frame = session.read.format("paimon").load(path)
    assert [tuple(row) for row in frame.collect()] == [(2, "b")]
    frame.write.format("paimon").mode("append").save(target)
    table = PaimonTable.for_path(session, target)
    table.delete("k = 99")
    assert table.to_df().count() == 1
    table.compact()
    text = paimon_spark.sql(session, "SELECT * FROM d.t", warehouse=f"s3a://{BUCKET}/wh")
    assert [tuple(row) for row in text.collect()] == [(2, "b")]
    query = (
        session.readStream.format("paimon").load(path)
        .writeStream.format("paimon").option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True).start(f"{target}2")
    )  # fmt: skip
    query.awaitTermination()
    streamed = session.read.format("paimon").load(f"{target}2")
    assert streamed.count() == 1
    plans = [
        str(each._jdf.queryExecution().toString()) for each in (frame, text, streamed, session.table("reached.d.t"))
    ]
    written = [
        file.read_bytes().decode("utf-8", "replace") for file in (tmp_path / "checkpoint").rglob("*") if file.is_file()
    ]
    shown = [repr(table), *plans, *written, *(row.value for row in session.sql("SET").collect())]
    assert HIDDEN not in "\n".join(shown)
    assert HIDDEN not in caplog.text
    assert len(caplog.text) > 1000


def test_options_win_and_errors_hide_keys(spark: SparkSession, server: S3Server) -> None:
    nowhere = {"s3.endpoint": "http://127.0.0.1:1", "s3.attempts.maximum": "1"}
    with pytest.raises(PaimonError, match="does not answer") as caught:
        PaimonTable.for_path(spark, f"s3a://{BUCKET}/wh/d.db/t", **nowhere)
    assert HIDDEN not in str(caught.value)
