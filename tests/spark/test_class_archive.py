"""The archive of Spark's classes (`tests/support/class_archive.py`): a driver maps it, and no other JVM minds it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conftest import absent
from tests.support.class_archive import archive_file, java_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_no_option_for_a_missing_archive(tmp_path: Path) -> None:
    assert java_options(tmp_path / "missing.jsa") == ""


@pytest.mark.parametrize("content", [b"", b"no archive" * 10_000])
def test_an_archive_of_something_else_is_left_alone(tmp_path: Path, content: bytes) -> None:
    archive = tmp_path / "other.jsa"
    archive.write_bytes(content)
    done = subprocess.run(
        ["java", *java_options(archive).split(), "-version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""  # programs read what a JVM prints there
    assert "warning" not in done.stderr


def test_the_driver_maps_the_archive(spark: SparkSession) -> None:
    if not archive_file().is_file():
        absent("the archive of Spark's classes")
    process = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    assert archive_file().name in Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8")
