"""The tests, from nothing: `python3 tests/run.py` on a machine with Python 3.11 or later, pip and Java 17.

Stdlib only. Makes `.venv`, installs the package into it, makes the environments of the peers and the archive of Spark's
classes (`tests/support/class_archive.py`), then runs ruff, mypy and pytest, whose tests up to four processes share.
Every step that fails is named at the end; the exit code says whether there was one. Of test functions whose cases
take long, a run takes a fifth of the cases, and so of long programs that take turns and of the steps of some tests,
each day other ones; `--all` takes all. Other arguments go to pytest, which then runs every case of what they name
(`python3 tests/run.py tests/spec -x`; `-n 0` for one process).

`python3 tests/run.py --quick` is for the loop of a person at work: the short tests, one of each function, no peers, no
JVM but a Spark session in each of two processes.

`python3 tests/run.py --spark 4.1` tries an older Spark: the wheel in its environment, every statement, the acceptance
cases. With the newest version it is the same as without.

`python3 tests/run.py --coverage` measures which lines the tests run, and prints the share of each package.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.peers import make_environments  # noqa: E402

NEWEST_SPARK = "4.3"
"""The version in requirements.lock, with which everything runs."""


def check_machine() -> None:
    """Say what is missing before anything is installed."""
    if sys.version_info < (3, 11):  # noqa: UP036 - whoever runs this with an older Python should read why
        sys.exit(f"Python 3.11 or later is needed, this is {sys.version.split()[0]}")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        sys.exit("Java 17 or 21 is needed: there is no `java` on the PATH and JAVA_HOME is not set")


def make_venv() -> Path:
    """`.venv` with the package (editable), its development tools and the Connect extra; return its interpreter."""
    folder = ROOT / ".venv"
    python = make_environments.python_of(folder)
    if not python.exists():
        python = make_environments.new_environment(folder)
    import tomllib

    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    make_environments.install(
        python, "-c", str(ROOT / "requirements.lock"), "-e", f"{ROOT}[connect]", *groups["dev"], *groups["docs"]
    )
    if shutil.which("krb5-config"):  # of libkrb5-dev; without it tests of Kerberos are left out
        try:
            make_environments.install(python, "-c", str(ROOT / "requirements.lock"), *groups["kerberos"])
        except subprocess.CalledProcessError:  # pip builds it: there is no compiler, say
            print("NOT RUN: the tests of Kerberos. The package gssapi cannot be built here.", file=sys.stderr)
            os.environ["PAIMON_SPARK_WITHOUT_KERBEROS"] = "true"
    return python


def processes(cores: int, memory_bytes: int, *, quick: bool) -> int:
    """How many processes share the tests: as many as cores, at most four; two where there is little memory.

    A process takes up to 5 GB with its JVMs, and its tests start processes of their own. In a quick run a third one
    would cost more, with a Spark session of its own, than it gains.
    """
    return min(2 if quick else 4, cores, max(2, memory_bytes // (5 << 30)))


def sharing(*, quick: bool) -> list[str]:
    """Options of pytest-xdist: the long files go first (tests/support/selection.py).

    Tests of one file stay together, since they share warehouses and catalogs.
    """
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    count = processes(os.cpu_count() or 1, memory_bytes, quick=quick)
    return ["-n", str(count), "--dist", "loadfile", "--no-loadscope-reorder"]


def older_spark(version: str) -> list[str]:
    """Arguments of pytest for the tests of one older Spark, whose environment is made; none for the newest version."""
    if version == NEWEST_SPARK:
        make_environments.main([])
        return []
    os.environ[make_environments.SPARKS] = version
    make_environments.main([make_environments.name_of(version)])
    return ["tests/matrix", "tests/packaging", "-k", "older"]


def steps(python: Path, pytest_arguments: list[str]) -> dict[str, list[str]]:
    """Each check by its name: the command that runs it."""
    module = [str(python), "-m"]
    return {
        "ruff": [*module, "ruff", "check", "--no-cache", "."],
        "ruff format": [*module, "ruff", "format", "--check", "."],
        "mypy": [*module, "mypy"],
        "pytest": [*module, "pytest", *sharing(quick="--quick" in pytest_arguments), *pytest_arguments],
    }


def main(arguments: list[str]) -> int:
    """Run everything; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], epilog="Other arguments go to pytest.", allow_abbrev=False
    )
    parser.add_argument(
        "--spark",
        metavar="VERSION",
        help="try this version only",
        choices=[*make_environments.OLDER_SPARKS, NEWEST_SPARK],
    )
    parser.add_argument("--all", action="store_true", help="every case of every test")
    parser.add_argument("--coverage", action="store_true", help="measure which lines run")
    ours, pytest_arguments = parser.parse_known_args(arguments)
    check_machine()
    begin = time.monotonic()
    python = make_venv()
    if ours.spark:
        pytest_arguments = older_spark(ours.spark) + pytest_arguments
    elif "--quick" not in pytest_arguments:
        make_environments.main([])
    if not pytest_arguments and not ours.all:
        pytest_arguments = ["--part"]
    if ours.coverage:
        pytest_arguments = ["--cov", "--cov-report=term", *pytest_arguments]
    if ours.spark in (None, NEWEST_SPARK):  # an older Spark has other classes
        subprocess.run([str(python), "-m", "tests.support.class_archive"], cwd=ROOT, check=False)
    failed = []
    for name, command in steps(python, pytest_arguments).items():
        print(f"\n== {name} ({time.monotonic() - begin:.0f} s)", flush=True)
        if subprocess.run(command, cwd=ROOT, check=False, stdin=subprocess.DEVNULL).returncode != 0:
            failed.append(name)
    print(f"\n{time.monotonic() - begin:.0f} s in all", flush=True)
    if failed:
        print(f"FAILED: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
