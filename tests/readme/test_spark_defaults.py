"""The `spark-defaults.conf` of each catalog's page: a user's program runs with it, against a real server."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import absent
from tests.support.programs import Done, run_program
from tests.support.s3_server import s3_server
from tests.support.sql_servers import sql_server

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[2]
PAGES = ("directory", "jdbc", "hive", "rest")
SMALL = "spark.ui.enabled  false\nspark.sql.shuffle.partitions  2\nspark.master  local[1]\n"
HIDDEN = {"directory": "'s3.secret-key'", "jdbc": "'jdbc.password'", "rest": "'token', 'token.provider'"}
"""What a server of Spark Connect does not tell its clients."""


def block(page: str) -> str:
    """The settings that a page shows."""
    text = (ROOT / "docs" / f"catalog_{page}.md").read_text(encoding="utf-8")
    (found,) = (each for each in re.findall(r"```text\n(.*?)```", text, re.DOTALL) if each.startswith("spark.sql."))
    return str(found)


@contextmanager
def _changes(page: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[dict[str, str]]:
    """What is put in place of addresses and secrets: those of servers that run meanwhile."""
    warehouse = f"{folder}/warehouse"
    match page:
        case "directory":
            with s3_server() as store:
                at = {"http://host:9000": store.url, "s3://bucket/warehouse": store.root}
                yield {**at, "access-key  …": "access-key  key", "secret-key  …": "secret-key  hidden"}
        case "jdbc":
            try:
                with sql_server("postgresql") as server:
                    at = {"s3://bucket/warehouse": warehouse, "jdbc:postgresql://host:5432/db": server.options["uri"]}
                    user, password = server.options["jdbc.user"], server.options.get("jdbc.password") or "any"
                    yield {**at, "jdbc.user      …": f"jdbc.user  {user}", "password  …": f"password  {password}"}
            except (OSError, RuntimeError) as error:
                absent(f"PostgreSQL ({error})")
        case "hive":
            at = request.getfixturevalue("hive").uri
            yield {"hdfs://host:8020/warehouse": warehouse, "thrift://host:9083": at}
        case _:
            server = request.getfixturevalue("rest")
            yield {"my_catalog": "wh", "http://host:8080": server.uri, "token           …": "token  a-token"}


def run(settings: str, changes: Mapping[str, str], folder: Path, *mode: str) -> Done:
    """Run the program with the settings, changed as said."""
    for given, put in changes.items():
        assert settings.count(given) == 1, given
        settings = settings.replace(given, put)
    (folder / "spark-defaults.conf").write_text(SMALL + settings, encoding="utf-8")
    name = settings.split()[0].removeprefix("spark.sql.catalog.")
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.readme.spark_defaults_program", name, *mode]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "AWS_"))}
    workers = {"PYSPARK_PYTHON": sys.executable} if mode else {}  # of a server; a classic session finds this Python
    environment |= {"SPARK_CONF_DIR": str(folder), "PYTHONPATH": str(ROOT), **workers}
    return run_program(command, ROOT, environment)


@pytest.mark.parametrize("page", PAGES)
def test_the_settings_of_a_page_are_all_that_a_program_needs(
    page: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with _changes(page, request, tmp_path) as changes:
        done = run(block(page), changes, tmp_path)
    assert done.code == 0, done.out + done.err
    assert "all done" in done.out


@pytest.mark.thorough
@pytest.mark.parametrize("page", PAGES)
def test_a_client_of_spark_connect_runs_with_them_or_is_told_what_the_server_hides(
    page: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with _changes(page, request, tmp_path) as changes:
        done = run(block(page), changes, tmp_path, "connect")
    if page in HIDDEN:
        assert f"does not tell its clients {HIDDEN[page]} of catalog" in done.err
    else:
        assert done.code == 0, done.out + done.err
