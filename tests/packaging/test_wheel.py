"""The built wheel, in a fresh environment: what a user gets from `pip install paimon-spark`."""

import email
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "peers"))

import make_environments  # noqa: E402

SMOKE = ROOT / "tests" / "packaging" / "smoke.py"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    return built


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
    sources = {
        path.relative_to(ROOT).as_posix() for path in ROOT.glob("paimon_spark/**/*") if path.suffix in (".py", ".java")
    }
    java = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("paimon_spark/spark/jvm/java/*.java")}
    assert java
    assert sources | java <= set(names)


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


@pytest.mark.spark
def test_the_wheel_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    python = make_environments.new_environment(tmp_path / "fresh")
    make_environments.install(python, "-c", str(ROOT / "requirements.lock"), str(wheel))
    assert "smoke test passed" in run_smoke(python, tmp_path)


@pytest.mark.peer
@pytest.mark.spark
@pytest.mark.parametrize("name", ["pyspark40", "pyspark41"])
def test_older_pyspark(wheel: Path, tmp_path: Path, name: str) -> None:
    python = make_environments.ensure(name)
    zipped = shutil.copy(wheel, tmp_path / "paimon_spark.zip")  # as `--py-files` gives it: nothing is unpacked
    output = run_smoke(python, tmp_path, python_path=str(zipped))
    assert "smoke test passed" in output
    assert f"PySpark {name[-2]}.{name[-1]}." in output
