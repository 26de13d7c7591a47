"""`register_catalog` on Spark Connect: the session's own methods, and the notebook, on one server."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hive_server import HiveServer
from tests.support.rest_server import TOKEN, RestServer

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]


def output_of(*command: object) -> str:
    """What a program prints that ends well."""
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.turns("connect")
def test_methods_of_the_session_name_paimon_tables(
    connect: str, tmp_path: Path, rest: RestServer, hive: HiveServer
) -> None:
    program = "tests/spark/connect_catalog_program.py"
    assert output_of(program, connect, tmp_path, rest.uri, TOKEN, hive.uri) == "done\n"


@pytest.mark.turns("connect")
@pytest.mark.thorough
def test_the_notebook_shows_the_same_as_on_a_classic_session(connect: str) -> None:
    found = output_of("tests/readme/connect_notebook_program.py", connect, "examples/time_travel.ipynb")
    assert found == "done on pyspark.sql.connect.session\n"
