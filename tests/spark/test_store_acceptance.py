"""Acceptance cases with their warehouse on a store: a part of them, or with ``--every-store-case`` each on each store.

``python tests/acceptance/run.py --store s3 tests/acceptance`` runs them without pytest.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from tests.acceptance.cases import CASES, FILES
from tests.acceptance.run import run_file
from tests.support.acceptance_backend import Backend, utc_clocks
from tests.support.store_servers import SERVERS, store_server

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

PART = {
    "s3": ("st_continue", "wr_save"),
    "gcs": ("dv_append", "br_fallback"),
    "azure": ("mg_clauses", "ex_expire"),
    "hdfs": ("cp_pk", "se_types"),
    "oss": ("wr_save",),
}
"""Of each kind of statement one, spread over the stores."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    every = metafunc.config.getoption("--every-store-case")
    chosen = {store: [path.stem for path in FILES] for store in SERVERS} if every else PART
    if "case" in metafunc.fixturenames:
        cases = [pytest.param(store, name, id=f"{store}-{name}") for store, names in chosen.items() for name in names]
        metafunc.parametrize(("store", "case"), cases, indirect=["store"], scope="module")


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest) -> str:
    """The name of a store."""
    return str(request.param)


@pytest.fixture(scope="module")
def backend(spark: SparkSession, store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A session of its own with a warehouse on a store, all clocks in UTC."""
    session = spark.newSession()
    paimon_spark.register(session)
    with utc_clocks(), store_server(store) as server:
        paimon_spark.register_catalog(session, "c", warehouse=server.root, **server.options)
        yield Backend(session, server.root, str(tmp_path_factory.mktemp("checkpoints")), store_options=server.options)
    paimon_spark.register(spark)  # makes it the thread's active session again


def test_case(backend: Backend, case: str) -> None:
    steps, failure = run_file(backend, str(CASES / f"{case}.slt"))
    assert failure is None, failure
    assert steps > 0


def test_each_named_case_is_there() -> None:
    assert set(PART) == set(SERVERS)
    assert all(Path(CASES / f"{name}.slt").exists() for names in PART.values() for name in names)
