"""Java classes of this package are compiled once for each Spark, not once for each process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from paimon_spark.spark.jvm import java_sources
from paimon_spark.spark.jvm.gateway import gateway_of
from paimon_spark.spark.jvm.java_sources import JavaSources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "PaimonFormatPlans"
GENERATED = 'public class PaimonMadeHere { public String toString() { return "%s"; } }'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(java_sources.VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


def compiled(spark: SparkSession) -> int:
    """How many class files a new process compiles to load a class."""
    made = JavaSources(gateway_of(spark))
    assert made.load(NAME).getName() == NAME
    return int(made._made.getMap().size())


def test_the_next_process_compiles_nothing(spark: SparkSession, folder: Path) -> None:
    assert compiled(spark) > 0
    assert compiled(spark) == 0
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_broken_file_is_made_anew(spark: SparkSession, folder: Path) -> None:
    compiled(spark)
    [file] = folder.iterdir()
    whole = file.read_bytes()
    for broken in (whole[: len(whole) // 2], b"", whole.replace(b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf")):
        file.write_bytes(broken)
        assert compiled(spark) > 0
        assert compiled(spark) == 0


def test_a_directory_that_others_can_write_to_is_not_used(spark: SparkSession, folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    assert compiled(spark) > 0
    assert not list(folder.iterdir())


def test_nothing_is_kept_without_a_directory(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(java_sources.VARIABLE, "")
    assert compiled(spark) > 0
    monkeypatch.setenv(java_sources.VARIABLE, os.devnull)
    assert compiled(spark) > 0
    assert not list(tmp_path.iterdir())


def test_generated_classes_are_kept_with_their_text(spark: SparkSession, folder: Path) -> None:
    gateway = gateway_of(spark)
    for text, is_compiled in (("one", True), ("one", False), ("two", True), ("two", False)):
        sources = JavaSources(gateway)
        made = sources.load("PaimonMadeHere", GENERATED % text).newInstance()
        assert gateway.jvm.java.util.Objects.toString(made) == text
        assert sources._made.getMap().isEmpty() is not is_compiled


def test_other_sources_another_spark_and_another_java_have_files_of_their_own(folder: Path) -> None:
    jar = folder.parent / "spark.jar"
    jar.write_bytes(b"1")
    sources = {"A": "class A {}"}
    files = {
        java_sources.cache_file(sources, str(jar), ("4.1.4", "17")),
        java_sources.cache_file({"A": "class A { }"}, str(jar), ("4.1.4", "17")),
        java_sources.cache_file(sources, str(jar), ("4.1.3", "17")),
        java_sources.cache_file(sources, str(jar), ("4.1.4", "21")),
    }
    jar.write_bytes(b"12")
    assert len(files | {java_sources.cache_file(sources, str(jar), ("4.1.4", "17"))}) == 5


def test_the_oldest_files_go(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    for number in range(12):
        file = folder / f"{number}.zip"
        java_sources.write_classes(file, {"A": b"bytes"})
        os.utime(file, (number, number))
    java_sources.write_classes(folder / "last.zip", {"A": b"bytes"})
    left = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)
    assert [file.name for file in left][-3:] == ["10.zip", "11.zip", "last.zip"]
    assert len(left) == 8
    assert java_sources.read_classes(left[-1]) == {"A": b"bytes"}
