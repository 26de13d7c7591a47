"""The JVM compiles what `register` needs while Python imports the rest of this package."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from paimon_spark.spark.hooks import java_rules
from paimon_spark.spark.hooks.install import FORMAT_HOOKS
from paimon_spark.spark.jvm import warm_up
from paimon_spark.spark.jvm.gateway import gateway_of
from paimon_spark.spark.jvm.java_sources import sources

_PROBE = """
import sys, paimon_spark
paimon_spark.register
print([name for name in ("pyarrow", "paimon_spark.spark.source.data_source") if name in sys.modules])
"""


def _class_of(hook: Callable[..., None]) -> str:
    """The Java class that a hook puts into the session: an argument of it, a text in its module, or that of a rule."""
    if isinstance(hook, partial):
        return str(hook.keywords["java_class"])
    own: str | None = getattr(sys.modules[hook.__module__], "_CLASS", None)
    source = inspect.getsource(hook)
    rules = re.findall(r"\b([A-Z_]+)\(gateway", source)
    return own or (_class_of(getattr(java_rules, rules[0])) if rules else re.findall(r'"(Paimon\w+)"', source)[0])


def test_the_classes_are_those_of_the_hooks() -> None:
    """In their order, so that `register` waits for the one that is compiled."""
    wanted = [_class_of(hook) for feature, hook in FORMAT_HOOKS if feature.until is None]
    assert list(warm_up.CLASSES) == list(dict.fromkeys(wanted))
    assert set(warm_up.CLASSES) <= set(sources())


def test_imports_wait_for_the_jvm_to_start() -> None:
    """Looking up `register` imports nothing that takes long: the call begins with the JVM's work."""
    found = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_class_that_does_not_compile_is_left_to_its_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    """The feature logs its loss; the thread says nothing."""
    asked: list[str] = []

    def refuse(_gateway: Any, name: str) -> None:
        asked.append(name)
        raise Py4JError(name)

    monkeypatch.setattr(warm_up, "missing_members", lambda _: frozenset())
    monkeypatch.setattr(warm_up, "java_class", refuse)
    run: Callable[[Any], None] = warm_up._load
    run(SimpleNamespace())
    assert asked == [warm_up.CLASSES[0]]


def test_the_jvm_reads_a_file_of_its_own_before_the_first_scan(spark: SparkSession, tmp_path: Path) -> None:
    gateway = gateway_of(spark)
    kept = {"fs.kept.impl": "org.apache.hadoop.fs.RawLocalFileSystem"}
    assert warm_up.read_first(gateway, None, "nowhere://host/d") == ""
    assert warm_up.read_first(gateway, kept, f"file:{tmp_path}") == ""
    assert warm_up.read_first(gateway, kept, "nowhere://host/d") == "UnsupportedFileSystemException"
