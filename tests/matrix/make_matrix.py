"""Try every statement on every Spark, write `result.json` and the table in docs/statements.md.

    python tests/matrix/make_matrix.py              # 4.0, 4.1 and 4.3, and 4.2 where its environment is
    python tests/matrix/make_matrix.py 4.3          # only this one; the others keep their results
    python tests/matrix/make_matrix.py --table      # only the table, from the results as they are

4.2 has its environment made by `python3 tests/peers/make_environments.py pyspark42`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.peers import make_environments  # noqa: E402

RESULT = Path(__file__).with_name("result.json")
PAGE = ROOT / "docs/statements.md"
BEGIN = "<!-- statements: made by tests/matrix/make_matrix.py -->\n"
END = "<!-- end of statements -->\n"
VERSIONS = ("4.0", "4.1", "4.2", "4.3")
NEWEST = VERSIONS[-1]
MARKS = {"works": "✓", "not in Spark": "-"}


def python_for(version: str) -> Path:
    """The interpreter with that PySpark."""
    if version == NEWEST:
        return Path(sys.executable)
    return make_environments.ensure(make_environments.name_of(version))


def run(version: str, *arguments: str) -> dict[str, dict[str, str | None]]:
    """What `run_here.py` says on that Spark."""
    python = python_for(version)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_", "PYTHON"))}
    environment = {**kept, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        command = [str(python), str(Path(__file__).with_name("run_here.py")), str(out), *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"Spark {version}: {done.stdout}{done.stderr}")
        result = json.loads(out.read_text(encoding="utf-8"))
    if not result["version"].startswith(f"{version}."):
        raise RuntimeError(f"this is Spark {result['version']}, not {version}")
    return dict(result)


def read_results() -> dict[str, dict[str, str]]:
    """Version -> statement -> what came of it."""
    return dict(json.loads(RESULT.read_text(encoding="utf-8"))) if RESULT.exists() else {}


def table(results: dict[str, dict[str, str]]) -> str:
    """The results in Markdown: a row for each statement, a column for each Spark."""
    from tests.matrix.statements import STATEMENTS

    versions = [version for version in VERSIONS if version in results]
    lines: list[str] = []
    failures: list[str] = []
    group = ""
    for statement in STATEMENTS:
        if statement.group != group:
            group = statement.group
            lines.append(f"| **{group}** |{' |' * len(versions)}")
        marks = [MARKS.get(results[version][statement.shown], "✗") for version in versions]
        lines.append(f"| {statement.shown.replace('<', '&lt;')} | {' | '.join(marks)} |")
        wrong = sorted({results[v][statement.shown] for v in versions} - set(MARKS))
        if wrong:
            failures.append(f"- ✗ {statement.shown}: {', '.join(f'`{text}`' for text in wrong)}")
    counts = [
        f"{sum(outcome == 'works' for outcome in results[version].values())} on {version}" for version in versions
    ]
    total = f"{len(STATEMENTS)} kinds of statement; of these work {', '.join(counts)}"
    head = f"| | {' | '.join(versions)} |\n|---|{':-:|' * len(versions)}\n"
    legend = "✓ gives the right result, ✗ does not work yet, - this Spark has no such statement."
    tail = "\n".join(["", legend, *([""] if failures else []), *failures])
    return f"{total}.\n\n{head}" + "\n".join(lines) + f"\n{tail}\n"


def with_table(page: str, results: dict[str, dict[str, str]]) -> str:
    """The page with the table as it should be."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n" + table(results) + "\n" + END + rest.split(END)[1]


def main(arguments: list[str]) -> None:
    """Run, write, print."""
    there = (make_environments.HOME / "pyspark42").exists()
    wanted = [] if "--table" in arguments else arguments or [v for v in VERSIONS if v != "4.2" or there]
    results = read_results()
    for version in wanted:
        results[version] = {key: str(value) for key, value in run(version)["statements"].items()}
        bad = {shown: text for shown, text in results[version].items() if text not in MARKS}
        print(f"{version}: {len(results[version])} statements, {len(bad)} do not work: {bad}", flush=True)
    results = {version: results[version] for version in VERSIONS if version in results}
    RESULT.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
