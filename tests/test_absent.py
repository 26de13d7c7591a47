"""What is not on this machine is skipped in one line; in CI it is a failure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conftest import absent
from tests.oracle.paimon_oracle import bundle_jar

FAILING = """#!/bin/sh
echo 'Picked up JAVA_TOOL_OPTIONS: x'
printf '\\033[0m[ERROR] No route to the registry\\n[ERROR] and more\\n'
exit 1
"""


def test_what_is_absent_is_skipped_but_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"^the oracle is missing$"):
        absent("the oracle")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"the oracle is missing, and CI must not skip"):
        absent("the oracle")


def test_without_maven_or_network_there_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAIMON_ORACLE_JAR", raising=False)
    monkeypatch.setenv("PAIMON_ORACLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OSError, match="mvn"):
        bundle_jar()
    (tmp_path / "mvn").write_text(FAILING)
    (tmp_path / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.defpath]))
    with pytest.raises(RuntimeError, match=r"^Maven cannot get paimon-bundle [\d.]+: No route to the registry$"):
        bundle_jar()
    assert not list((tmp_path / "cache" / "jars").iterdir())
