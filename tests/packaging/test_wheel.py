"""The built wheel, in a fresh environment: what a user gets from `pip install paimon-spark`."""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import paimon_spark
from tests.peers import make_environments

ROOT = Path(__file__).resolve().parents[2]
SMOKE = ROOT / "tests" / "packaging" / "smoke.py"
OTHER_FILES = (
    ".gitignore",
    "CHANGELOG.md",
    "LICENSE",
    "PKG-INFO",
    "README.md",
    "SECURITY.md",
    "pyproject.toml",
)
"""What the sdist holds alongside the packages; hatchling adds the first, which says what a build leaves out."""


def package_files() -> list[str]:
    """Every file of the two packages in this checkout."""
    found = (path for folder in ("paimon_spark", "pyspark_paimon") for path in (ROOT / folder).rglob("*"))
    return sorted(
        path.relative_to(ROOT).as_posix() for path in found if path.is_file() and "__pycache__" not in path.parts
    )


def build(kind: str, source: Path, out: Path) -> Path:
    """Build without isolation, so without a registry."""
    command = [sys.executable, "-m", "build", kind, "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("--wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("--sdist", ROOT, tmp_path_factory.mktemp("sdist"))


def test_the_wheel_holds_the_two_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = email.message_from_bytes(
            archive.read(next(name for name in names if name.endswith(".dist-info/METADATA")))
        )
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"paimon_spark", "pyspark_paimon"}
    assert {"paimon_spark/py.typed", "pyspark_paimon/py.typed", "pyspark_paimon/__init__.py"} <= set(names)
    assert metadata["Name"] == "paimon-spark"
    assert metadata["Requires-Python"] == ">=3.11"
    needed = [line for line in metadata.get_all("Requires-Dist") if "extra" not in line]
    required = {re.split(r"[<>=;\s]", line)[0].replace(".", "-") for line in needed}
    assert required == {
        "pyspark",
        "pyarrow",
        "numpy",
        "fastavro",
        "datasketches",
        "fsspec",
        "backports-zstd",
        "sqlglot",
    }
    assert metadata["Version"] == paimon_spark.__version__
    assert sorted(name for name in names if ".dist-info/" not in name) == package_files()
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    for kind in (".java", ".csv", "/py.typed"):  # what is no Python module must not be forgotten
        assert any(name.endswith(kind) for name in names), kind


def test_the_sdist_holds_what_builds_the_wheel_and_no_tests(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    top = f"paimon_spark-{paimon_spark.__version__}"
    names = sorted(member.name.removeprefix(f"{top}/") for member in members if member.isfile())
    assert all(member.name.startswith(f"{top}/") for member in members)
    assert names == sorted([*package_files(), *OTHER_FILES])


def test_what_is_built_from_the_sdist_is_the_same_wheel(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    again = build("--wheel", tmp_path / f"paimon_spark-{paimon_spark.__version__}", tmp_path / "dist")
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(again) as theirs:
        assert {name: ours.read(name) for name in ours.namelist()} == {
            name: theirs.read(name) for name in theirs.namelist()
        }


@pytest.mark.parametrize("folder", ["paimon_spark", "pyspark_paimon"])
def test_the_packages_say_that_they_are_typed(folder: str) -> None:
    assert (ROOT / folder / "py.typed").exists()


def run_smoke(python: Path, where: Path, *, python_path: str = "") -> str:
    """Run the smoke test away from the checkout, so that only what is installed can be imported."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "PYTHON", "SPARK_"))
    }
    environment["PYSPARK_PYTHON"] = str(python)
    if python_path:
        environment["PYTHONPATH"] = python_path
    command = [str(python), str(SMOKE), str(where / "warehouse")]
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.turns("wheel")
@pytest.mark.spark
def test_the_wheel_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    python = make_environments.new_environment(tmp_path / "fresh")
    make_environments.install(python, "-c", str(ROOT / "requirements.lock"), str(wheel))
    assert "smoke test passed" in run_smoke(python, tmp_path)


@pytest.mark.turns("wheel")
@pytest.mark.peer
@pytest.mark.spark
@pytest.mark.parametrize("version", make_environments.sparks_to_try())
def test_older_pyspark(wheel: Path, tmp_path: Path, version: str) -> None:
    python = make_environments.ensure(make_environments.name_of(version))
    zipped = shutil.copy(wheel, tmp_path / "paimon_spark.zip")  # as `--py-files` gives it: nothing is unpacked
    output = run_smoke(python, tmp_path, python_path=str(zipped))
    assert "smoke test passed" in output
    assert f"PySpark {version}." in output
