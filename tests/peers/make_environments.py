"""Make the environments of the peers: other readers of Paimon tables, and older PySpark versions.

Stdlib only. Each environment is a folder of `.venvs/` (git-ignored) with a stamp that says what is in it; one whose
stamp is right is left alone. pypaimon wants another pyarrow than we do, so peers do not live in our own environment.

    python3 tests/peers/make_environments.py              # all that the tests need
    python3 tests/peers/make_environments.py pyspark42    # only this one
"""

import json
import os
import shutil
import subprocess
import sys
import time
import venv
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("PAIMON_SPARK_ENVIRONMENTS", ROOT / ".venvs"))
ON_REQUEST = ("pyspark42",)
"""Made only when named: by `tests/run.py --spark 4.2`, and for the matrix of statements (`tests/matrix`)."""
OLDER_SPARKS = ("4.0", "4.1", "4.2")
SPARKS = "PAIMON_SPARK_TESTS_SPARKS"
"""Variable with the older versions that tests try, with commas between them; `4.0` and `4.1` where it is not set."""


def name_of(version: str) -> str:
    """The environment with that PySpark."""
    return f"pyspark{version.replace('.', '')}"


def sparks_to_try() -> tuple[str, ...]:
    """The older versions of Spark that the tests try."""
    return tuple(os.environ.get(SPARKS, "4.0,4.1").split(","))


def older_spark(version: str) -> list[str]:
    """What an older PySpark is tried with: also as a Connect server and its client."""
    return [f"pyspark[connect]=={version}.*", "pandas<3", *our_dependencies()]


def our_dependencies() -> list[str]:
    """The run-time dependencies of the package, without PySpark."""
    import tomllib  # Python 3.11 or later; tests/run.py says so in better words than an import error

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [line for line in project["dependencies"] if not line.startswith("pyspark")]


def environments() -> dict[str, list[str]]:
    """Requirements of each environment, by its name."""
    return {
        "pypaimon": ["pypaimon==2.1.0", "pyarrow<20"],
        "pypaimon-rust": ["pypaimon-rust==0.4.0", "pyarrow>=18"],
        "dask": ["dask==2026.8.0", *our_dependencies()],
        "sail": ["pysail==0.7.2", "pyspark-client==4.1.2", *our_dependencies()],
        **{name_of(version): older_spark(version) for version in OLDER_SPARKS},
    }


def python_of(folder: Path) -> Path:
    """The interpreter of an environment."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def new_environment(folder: Path) -> Path:
    """An empty environment without pip (Debian ships no ensurepip); the pip of this interpreter installs into it."""
    venv.EnvBuilder(clear=True, with_pip=False, symlinks=os.name != "nt").create(folder)
    return python_of(folder)


def interpreter_with_pip() -> str:
    """This interpreter, or the one that its environment (which has no pip) was made from."""
    base: str = getattr(sys, "_base_executable", sys.executable)
    return sys.executable if find_spec("pip") is not None else base


def install(python: Path, *arguments: str) -> None:
    """`pip install` into the environment of `python`: by uv where it is at hand, else by this interpreter's pip.

    uv looks at what it has first: asked online it builds PySpark anew for every environment, 1.4 GB and 20 s each time.
    """
    uv = shutil.which("uv")
    if uv and subprocess.run([uv, "--version"], capture_output=True, check=False).returncode == 0:
        command = [uv, "pip", "install", "-q", "--python", str(python)]
        offline = [*command, "--offline", *arguments]
        if subprocess.run(offline, check=False, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0:
            return
    else:
        command = [interpreter_with_pip(), "-m", "pip", "--python", str(python), "install", "-q"]
    subprocess.run([*command, *arguments], check=True, stdin=subprocess.DEVNULL)


def ensure(name: str) -> Path:
    """Make the environment `name` where it is missing or has other contents; return its interpreter."""
    folder = HOME / name
    stamp = folder / "made.json"
    wanted = {"python": sys.version.split()[0], "requirements": environments()[name]}
    if stamp.exists() and json.loads(stamp.read_text(encoding="utf-8")) == wanted and python_of(folder).exists():
        return python_of(folder)
    python = new_environment(folder)
    install(python, *wanted["requirements"])
    stamp.write_text(json.dumps(wanted, indent=2), encoding="utf-8")
    return python


def main(names: list[str]) -> None:
    """Make the named environments, or all that are not made on request only."""
    unknown = set(names) - set(environments())
    if unknown:
        sys.exit(f"no such environment: {', '.join(sorted(unknown))}; there are {', '.join(environments())}")
    for name in names or [name for name in environments() if name not in ON_REQUEST]:
        begin = time.monotonic()
        python = ensure(name)
        print(f"{name}: {python} ({time.monotonic() - begin:.0f} s)", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
