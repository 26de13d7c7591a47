"""What methods of `PaimonTable` and statements answer, on a classic session and on Spark Connect."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support import method_checks

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kind", method_checks.KINDS)
def test_methods_count_the_rows_they_change(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    method_checks.check_counts(spark, str(tmp_path), kind)


def test_statements_by_text_count_rows(spark: SparkSession, tmp_path: Path) -> None:
    method_checks.check_text_statements(spark.newSession(), str(tmp_path))


def test_a_table_by_name_its_columns_and_options(spark: SparkSession, tmp_path: Path) -> None:
    method_checks.check_definition(spark.newSession(), str(tmp_path))


def test_modes_of_saves_by_path(spark: SparkSession, tmp_path: Path) -> None:
    method_checks.check_save_modes(spark, str(tmp_path))


def test_primary_keys_and_definitions_that_run_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    method_checks.check_keys_by_catalog(session, str(tmp_path))
    session.sql("INSERT INTO copies.one.a VALUES (1, 'x')")
    session.sql("CREATE VIEW spark_catalog.default.of_copies AS SELECT v FROM copies.one.a")
    try:
        assert session.sql("SELECT * FROM spark_catalog.default.of_copies").head()[0] == "x"
    finally:
        session.sql("DROP VIEW spark_catalog.default.of_copies")


def test_primary_keys_by_text(spark: SparkSession, tmp_path: Path) -> None:
    method_checks.check_keys_by_text(spark.newSession(), str(tmp_path))


@pytest.mark.turns("connect")
def test_methods_and_statements_on_connect(connect: str, tmp_path: Path) -> None:
    command = [sys.executable, "tests/spark/methods_program.py", connect, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("done\n")
