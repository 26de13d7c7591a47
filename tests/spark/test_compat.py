"""Private members of Spark: this Spark has each of them, and one that is missing costs one feature only."""

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.jvm import compat, features
from paimon_spark.spark.jvm.gateway import Gateway
from paimon_spark.spark.jvm.java_sources import java_class, sources
from paimon_spark.spark.jvm.plan_tables import java_list
from paimon_spark.spark.session import pyspark_members
from tests.support.queries import Query

pytestmark = pytest.mark.spark

FEATURES = [feature for feature in features.FEATURES if feature not in (features.SESSION, features.CATALOG)]


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of primary keys, whose files must be merged."""
    path = str(tmp_path_factory.mktemp("compat") / "t")
    for _ in range(2):
        spark.range(4).write.format("paimon").options(**{"primary-key": "id", "bucket": "1"}).mode("append").save(path)
    return path


def test_this_spark_has_every_member(spark: SparkSession) -> None:
    gateway = Gateway(spark)
    needed = [feature for feature in features.FEATURES if feature.is_for(features.spark_version(gateway))]
    assert len({name for feature in needed for member in feature.members for name, _ in member.probes()}) > 150
    assert {feature.name: missing for feature in needed if (missing := features.missing_of(gateway, feature))} == {}


def test_every_feature_is_probed() -> None:
    made = [value for value in vars(features).values() if isinstance(value, features.Feature)]
    assert [feature.name for feature in made if feature not in features.FEATURES] == []
    assert len(features.FEATURES) == len(set(features.FEATURES)) == len({feature.name for feature in made})


def test_every_member_belongs_to_a_feature() -> None:
    needed = {name for feature in features.FEATURES for member in feature.members for name, _ in member.probes()}
    members = [value for value in vars(compat).values() if isinstance(value, compat.SparkClass | compat.SparkField)]
    names = {name for member in members if member is not compat.UNNAMED_STREAM for name, _ in member.probes()}
    assert names - needed == set()  # UNNAMED_STREAM: only where a constructor has a parameter more


def test_pyspark_has_every_attribute(spark: SparkSession) -> None:
    frame = spark.range(1)
    assert pyspark_members.java_state(spark).conf() is not None
    assert pyspark_members.java_session(spark).equals(pyspark_members.java_session(frame.sparkSession))
    assert pyspark_members.jvm_of(spark).java.lang.Integer.valueOf(3) == 3
    assert pyspark_members.java_frame(frame).count() == 1
    assert pyspark_members.java_writer(frame.write.format("paimon")).source() == "paimon"


def test_the_probe_finds_what_is_missing(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Gateway(spark)
    odd = (
        compat.SparkClass("org.apache.spark.NoSuchClass"),
        compat.SparkClass(compat.SQL_CONF.name, methods=("noSuchMethod",), constructors=(17, 18)),
        compat.SparkField(compat.SESSION_STATE.name, ("noSuchField", "neitherThis")),
    )
    monkeypatch.setattr(features, "FEATURES", (features.Feature("odd", "nothing", odd),))
    assert features._probed(gateway) == {
        "org.apache.spark.NoSuchClass",
        "org.apache.spark.sql.internal.SQLConf.noSuchMethod()",
        "org.apache.spark.sql.internal.SQLConf(of 17 or 18 parameters)",
        "org.apache.spark.sql.internal.SessionState.noSuchField",
    }


def test_every_java_class_compiles(spark: SparkSession) -> None:
    gateway = Gateway(spark)
    for name in sources():
        assert java_class(gateway, name).getName() == name


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_a_missing_member_costs_one_feature(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    rows: str,
    feature: features.Feature,
) -> None:
    # the member that the fewest other features need
    member = min(feature.members, key=lambda member: sum(member in other.members for other in FEATURES))
    name = member.probes()[0][0]
    lost = [other for other in FEATURES if member in other.members]
    monkeypatch.setattr(features, "missing_members", lambda _gateway: frozenset({name}))
    monkeypatch.setattr(features, "_noted", set())
    monkeypatch.setattr(features.Feature, "is_for", lambda self, _version: self in lost)
    session = spark.newSession()
    with caplog.at_level(logging.WARNING):
        paimon_spark.register_catalog(session, "odd", warehouse=str(tmp_path / "wh"))
    losses = [record.getMessage() for record in caplog.records if record.name == features.__name__]
    assert sorted(losses) == sorted(
        f"Disabled on this Spark version: {other.name}. Without it, {other.loss} (there is no {name})" for other in lost
    )
    assert session.sql(f"SELECT sum(id) FROM odd.`{rows}`").first() == (6,)


@pytest.mark.parametrize(
    "feature", [features.STREAMS, features.STREAM_COLUMNS, features.STREAMED_TABLES], ids=lambda feature: feature.name
)
def test_streams_read_the_same_rows_without_a_feature(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, feature: features.Feature
) -> None:
    path = str(tmp_path / "wh" / "d.db" / "t")
    for low in (0, 10):
        frame = spark.range(low, low + 10).selectExpr("id", "id * 2 AS v")
        frame.write.format("paimon").option("primary-key", "id").mode("append").save(path)
    needed = features.missing_of
    monkeypatch.setattr(
        features, "missing_of", lambda gateway, asked: ["it"] if asked == feature else needed(gateway, asked)
    )
    monkeypatch.setattr("paimon_spark.spark.catalog.frames.missing_of", features.missing_of)
    session = spark.newSession()
    paimon_spark.register_catalog(session, "lesser", warehouse=str(tmp_path / "wh"))
    rows = [(2 * number,) for number in range(5, 20)]
    streams = {
        "path": session.readStream.format("paimon").load(path),
        "name": session.readStream.table("lesser.d.t"),
        "start": session.readStream.format("paimon").option("scan.snapshot-id", "2").load(path),
    }
    for name, stream in streams.items():
        read = Query(tmp_path / name).run(stream.where("id >= 5").select("v"))
        assert read == (rows if name != "start" else rows[5:]), name


def test_a_catalog_is_refused_where_a_member_that_it_needs_is_missing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: str
) -> None:
    name = compat.BATCH_INFO.probes()[0][0]
    monkeypatch.setattr(features, "missing_members", lambda _gateway: frozenset({name}))
    with pytest.raises(UnsupportedError, match=r"use format\('paimon'\).*there is no .*infoInPython"):
        paimon_spark.register_catalog(spark.newSession(), "odd", warehouse=str(tmp_path / "wh"))


def test_the_plain_source_reads_where_the_java_classes_do_not_compile(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: str
) -> None:
    def broken(*_arguments: object) -> None:
        raise TypeError("no such class")

    monkeypatch.setattr("paimon_spark.spark.jvm.answer_proxy._ENTRIES", {})
    monkeypatch.setattr("paimon_spark.spark.jvm.answer_proxy.new_object", broken)
    assert spark.read.format("paimon").load(rows).agg({"id": "sum"}).first() == (6,)
    with pytest.raises(UnsupportedError, match="no such class"):
        paimon_spark.register_catalog(spark.newSession(), "odd", warehouse=str(tmp_path / "wh"))


def test_a_sequence_is_listed_without_a_java_exception(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = pyspark_members.java_frame(spark.range(1).selectExpr("id", "id + 1 more")).queryExecution().analyzed()
    client = Gateway(spark).gateway._gateway_client
    send, calls = client.send_command, []

    def counting(command: str, *arguments: object, **named: object) -> object:
        if not command.startswith("m\nd\n"):  # releases of objects
            calls.append(command)
        return send(command, *arguments, **named)

    output = plan.output()
    monkeypatch.setattr(client, "send_command", counting)
    listed = java_list(output)
    monkeypatch.undo()
    assert len(calls) == 3
    assert [column.name() for column in listed] == ["id", "more"]
