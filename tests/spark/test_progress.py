"""The bar of long compactions in notebooks: fakes stand for IPython and for Spark's tracker of jobs."""

from __future__ import annotations

import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from paimon_spark.spark.jobs import progress


class Handle:
    def __init__(self) -> None:
        self.shown: list[str] = []
        self.twice = threading.Event()

    def update(self, html: str) -> None:
        self.shown.append(html)
        if len(self.shown) > 1:
            self.twice.set()


def ipython(handle: Handle, *, kernel: object) -> Any:
    module = ModuleType("IPython")
    shown = SimpleNamespace(display=lambda html, display_id: handle, HTML=str)
    vars(module).update(get_ipython=lambda: SimpleNamespace(kernel=kernel), display=shown)
    return module


def session(module: str = "pyspark.sql.session", *, broken: bool = False) -> Any:
    stage = SimpleNamespace(numCompletedTasks=3, numTasks=8)
    tracker = SimpleNamespace(getActiveStageIds=lambda: [1, 2], getStageInfo={1: stage, 2: None}.get)
    context = SimpleNamespace(statusTracker=lambda: tracker)
    members = {"__module__": module, **({} if broken else {"sparkContext": context})}
    return type("SparkSession", (), members)()


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Handle:
    found = Handle()
    monkeypatch.setitem(sys.modules, "IPython", ipython(found, kernel=object()))
    monkeypatch.setattr(progress, "_SECONDS_BEFORE", 0)
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN", 0.001)
    return found


def test_a_notebook_shows_a_bar_until_it_is_done(handle: Handle) -> None:
    with progress.shown_progress(session(), "Compacting </wh/t>"):
        assert handle.twice.wait(60)
    assert 'value="3" max="8"' in handle.shown[0]
    assert "Compacting &lt;/wh/t&gt;: 3 of 8 tasks" in handle.shown[0]
    assert handle.shown[-1] == ""


def test_jobs_are_named_for_the_ui() -> None:
    reported: list[str | None] = []
    given: dict[str, str | None] = {}

    def put(key: str, value: str | None) -> None:
        reported.append(value)
        given[key] = value

    context = SimpleNamespace(setLocalProperty=put, getLocalProperty=given.get)
    spark: Any = type("SparkSession", (), {"__module__": "pyspark.sql.session", "sparkContext": context})()
    with progress.named_jobs(spark, f"compact {progress.name_of('/wh/shop.db/orders')}, 3 rewrites of 2 buckets"):
        pass
    given["spark.job.description"] = "mine"
    with progress.named_jobs(spark, "compact"):
        assert given["spark.job.description"] == "mine"
    assert reported == ["paimon: compact shop.orders, 3 rewrites of 2 buckets", None]
    assert progress.name_of("/data/orders") == "/data/orders"


def test_what_is_soon_done_shows_nothing(handle: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SECONDS_BEFORE", 60)
    with progress.shown_progress(session(), "Compacting t"):
        pass
    assert handle.shown == []


def test_elsewhere_there_is_no_bar_of_ours(handle: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect has one, terminals have Spark's; and a tracker that fails fails nothing."""
    with progress.shown_progress(session("pyspark.sql.connect.session"), "t"):
        pass
    with progress.shown_progress(session(broken=True), "t"):
        pass
    monkeypatch.setitem(sys.modules, "IPython", ipython(handle, kernel=None))
    with progress.shown_progress(session(), "t"):
        pass
    assert handle.shown == []
