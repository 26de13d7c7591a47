"""Commands that install what an extra brings: pip finds what they name."""

import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest

from paimon_spark.storage import extras
from paimon_spark.storage.extras import EXTRAS, pip_command
from paimon_spark.storage.store_options import install_command

ROOT = Path(__file__).resolve().parents[2]


def test_extras_are_those_of_the_project() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert {name: list(brought) for name, brought in EXTRAS.items()} == {
        name: brought for name, brought in declared.items() if name != "connect"
    }


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"INSTALLER": "pip"}, "pip install 'paimon-spark[s3]'"),
        ({"INSTALLER": "pip", "direct_url.json": "{}"}, "pip install 's3fs>=2024.12'"),
        ({}, "pip install 's3fs>=2024.12'"),
        (None, "pip install 's3fs>=2024.12'"),
    ],
)
def test_the_package_is_named_only_where_pip_found_it_by_name(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, str] | None, command: str
) -> None:
    def distribution(name: str) -> object:
        if files is None:
            raise PackageNotFoundError(name)
        return SimpleNamespace(read_text=files.get)

    monkeypatch.setattr(extras, "distribution", distribution)
    assert install_command("s3") == command


def test_other_commands() -> None:
    assert pip_command("cli") == "pip install 'click>=8.1' 'rich>=13'"  # the tests run in a clone
    assert install_command("sftp") == "pip install paramiko"
    assert "dbfs" in install_command("dbfs")
