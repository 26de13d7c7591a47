"""What a release needs is in the checkout and agrees: one version, its changes, the workflows of the hosted CI."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import paimon_spark
from tests import run
from tests.peers.make_environments import OLDER_SPARKS

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HOSTED = sorted((ROOT / ".github").rglob("*.yml"))
FORMS = [path for path in HOSTED if path.parent.name == "ISSUE_TEMPLATE" and path.stem != "config"]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_stands_once() -> None:
    assert "version" not in PROJECT["project"]
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "paimon_spark/__init__.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", paimon_spark.__version__)


def test_the_changelog_has_the_version_with_its_date() -> None:
    headings = re.findall(r"^## (.+)$", text("CHANGELOG.md"), re.M)
    released = [heading for heading in headings if heading != "Unreleased"]
    assert headings.index(released[0]) == len(headings) - len(released), "what is not released stands first"
    version, date = released[0].split(", ")
    assert version == paimon_spark.__version__
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", date)


def test_documents_name_the_wheel_of_this_version() -> None:
    named = re.findall(r"paimon_spark-([\d.]+)-py3", text("docs/deployment.md"))
    assert set(named) == {paimon_spark.__version__}


def test_what_compatibility_promises_is_what_the_project_says() -> None:
    promised = dict(re.findall(r"^\| (Python|PySpark) \| ([\d.]+ to [\d.]+) \|", text("docs/compatibility.md"), re.M))
    pythons = re.findall(r"Python :: (\d\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert promised["Python"] == f"{pythons[0]} to {pythons[-1]}"
    assert PROJECT["project"]["requires-python"] == f">={pythons[0]}"
    assert promised["PySpark"] == f"{OLDER_SPARKS[0]} to {run.NEWEST_SPARK}"
    (locked,) = re.findall(r"^pyspark(?:\[.*\])?==(\d+\.\d+)\.", text("requirements.lock"), re.M)
    assert locked == run.NEWEST_SPARK


def test_the_hosted_ci_runs_every_python_on_every_spark_by_the_command_of_ci() -> None:
    job = yaml.safe_load(text(".github/workflows/tests.yml"))["jobs"]["tests"]
    pythons = re.findall(r"Python :: (\d\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert job["strategy"]["matrix"] == {"python": pythons, "spark": [*OLDER_SPARKS, run.NEWEST_SPARK]}
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run --spark ${{ matrix.spark }}"]
    assert text(".ci/run").rstrip().endswith('exec python3 tests/run.py "$@"')
    nightly = yaml.safe_load(text(".github/workflows/all.yml"))["jobs"]["all"]["steps"]
    assert [step["run"] for step in nightly if "run" in step] == [".ci/run --all"]


def test_a_tag_that_is_not_the_version_is_not_released() -> None:
    steps = yaml.safe_load(text(".github/workflows/release.yml"))["jobs"]["build"]["steps"]
    (command,) = (step["run"] for step in steps if step.get("name") == "the tag is the version")
    (pattern,) = re.findall(r"sed -n 's/(.+?)/\\1/p'", command)
    pattern = pattern.replace("\\(", "(").replace("\\)", ")")
    assert re.findall(pattern, text("paimon_spark/__init__.py"), re.M) == [paimon_spark.__version__]


def test_the_hooks_before_a_commit_are_the_checks_of_ci() -> None:
    (local,) = yaml.safe_load(text(".pre-commit-config.yaml"))["repos"]
    assert {"ruff", "ruff-format", "mypy"} <= {hook["id"] for hook in local["hooks"]}
    assert all(hook["entry"].startswith(".venv/bin/python -m ") for hook in local["hooks"])


@pytest.mark.parametrize("path", HOSTED, ids=lambda path: path.name)
def test_files_of_the_host_are_yaml(path: Path) -> None:
    assert yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_templates_have_a_name_and_required_answers(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    assert any(part.get("validations", {}).get("required") for part in form["body"])
