"""Sessions made of a session, by Spark for streams and by ``newSession()``: they have its catalogs, put there once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import paimon_spark
from paimon_spark.spark import register_catalog
from paimon_spark.spark.hooks import install, install_catalog
from paimon_spark.spark.hooks.install import FORMAT_HOOKS, CloneFollower, clone_follower
from paimon_spark.spark.jvm import features
from paimon_spark.spark.jvm.gateway import Gateway, gateway_of
from paimon_spark.spark.session.pyspark_members import java_session, java_state

pytestmark = pytest.mark.spark

CATALOGS = [f"copied{number}" for number in range(5)]


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session that has nothing of ours; ``spark.newSession()`` would hand on the catalogs of other tests."""
    return SparkSession(spark.sparkContext, java_session(spark).newSession())


def register(session: SparkSession, warehouse: Path, *names: str) -> None:
    """Register catalogs; each has the table ``db.t``, whose one row names its warehouse."""
    for name in names:
        paimon_spark.register_catalog(session, name, warehouse=str(warehouse / name))
        session.sql(f"CREATE DATABASE IF NOT EXISTS {name}.db")
        session.sql(f"CREATE TABLE IF NOT EXISTS {name}.db.t AS SELECT '{warehouse.name}' AS of")


def clone_of(session: SparkSession) -> SparkSession:
    """A copy of a session, as Spark makes it for a query that streams."""
    return SparkSession(session.sparkContext, java_session(session).cloneSession())


def commands(session: SparkSession, monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]) -> int:
    """How many commands a call sends to the JVM, releases of objects left out."""
    client = gateway_of(session).gateway._gateway_client
    send, sent = client.send_command, []

    def counting(command: str, *arguments: object, **named: object) -> object:
        if not command.startswith("m\nd\n"):
            sent.append(command)
        return send(command, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(client, "send_command", counting)
        call()
    return len(sent)


def test_a_clone_of_five_catalogs_costs_little_more_than_of_one(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(session, tmp_path, CATALOGS[0])
    clone_of(session)  # classes are looked up once
    one = commands(session, monkeypatch, lambda: clone_of(session))
    register(session, tmp_path, *CATALOGS[1:])
    five = commands(session, monkeypatch, lambda: clone_of(session))
    assert five - one <= 4  # each catalog is put into a map


def test_every_hook_is_put_into_a_clone_once(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(session, tmp_path, *CATALOGS)
    follower = clone_follower(gateway_of(session), java_state(session))
    assert follower is not None
    assert not str(follower.original.toString()).startswith(CloneFollower.__name__)
    assert list(follower.contents.catalogs) == CATALOGS
    put = list[str]()
    plain = install.install_feature

    def counting(gateway: Gateway, feature: features.Feature, hook: Any) -> bool:
        put.append(f"{hook.func.__name__} {hook.keywords}")
        return plain(gateway, feature, hook)

    monkeypatch.setattr(install, "install_feature", counting)
    clone_of(session)
    hooks = {hook for _, hook in (*FORMAT_HOOKS, *install_catalog.HOOKS)}
    assert len(put) == len(set(put))
    assert len(put) == len(hooks) + 2  # the parser, and what follows clones of the clone


def test_what_is_registered_later_is_in_later_streams(session: SparkSession, tmp_path: Path) -> None:
    fed, seen = str(tmp_path / "fed"), list[str]()
    register(session, tmp_path / "first", "early")
    session.range(1).write.format("paimon").mode("append").save(fed)

    def stream(*tables: str) -> None:
        def read(batch: DataFrame, _number: int) -> None:
            seen.extend(batch.sparkSession.table(table).first().of for table in tables)  # type: ignore[union-attr]

        rows = session.readStream.format("paimon").load(fed)
        query = rows.writeStream.foreachBatch(read).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    stream("early.db.t")
    register(session, tmp_path / "second", "late", "early")
    stream("early.db.t", "late.db.t")
    assert seen == ["first", "second", "second"]


def test_a_catalog_of_a_clone_is_not_in_the_session(session: SparkSession, tmp_path: Path) -> None:
    register(session, tmp_path, "ours")
    clone = clone_of(session)
    register(clone, tmp_path, "its_own")
    contents = {
        name: list(follower.contents.catalogs)
        for name, of in (("session", session), ("clone", clone), ("copy", clone_of(clone)))
        if (follower := clone_follower(gateway_of(of), java_state(of))) is not None
    }
    both = ["ours", "its_own"]
    assert contents == {"session": ["ours"], "clone": both, "copy": both}


def test_a_new_session_gets_each_catalog_once(
    session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(session, tmp_path / "first", "kept", "moved")
    register(session, tmp_path / "second", "moved")
    caplog.clear()
    made = list[str]()
    plain = register_catalog.register_catalog

    def counting(spark: SparkSession, name: str, **options: Any) -> None:
        made.append(name)
        plain(spark, name, **options)

    monkeypatch.setattr(register_catalog, "register_catalog", counting)
    with caplog.at_level(logging.WARNING):
        new = session.newSession()
    assert made == ["kept", "moved"]
    assert [record.getMessage() for record in caplog.records if "from now on" in record.getMessage()] == []
    assert [new.table(f"{name}.db.t").first() for name in made] == [("first",), ("second",)]
    assert new.newSession().table("moved.db.t").first() == ("second",)
