"""Published benchmarks: this package, the official connector, Delta Lake and plain Parquet on one Spark, in one run.

`python -m benchmarks.published.run --official JAR --python PYTHON` starts a session of each peer (`PYTHON`: of PySpark
4.1, which the official connector and Delta 4.1 are made for), takes each step by one after the other, so that all meet
the same load, checks that they found the same, and prints a table for each suite: medians in seconds. `--keep` writes
the figures to `figures.json`, and of these `docs/benchmarks.md` with its pictures.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import date
from pathlib import Path

from benchmarks import record
from benchmarks.published import page
from benchmarks.published.peers import NAMES, Peer, session
from benchmarks.published.suites import SUITES, Step

DELTA = ("io.delta:delta-spark_4.1_2.13:4.1.0", "io.delta:delta-storage:4.1.0")
_MARK = "step: "
_ENOUGH_SECONDS = 30.0
"""A step that has run so long is not run again."""


def _once(step: Step) -> tuple[float, str]:
    given = step.prepare()
    start = time.perf_counter()
    found = step.run(given)
    seconds = time.perf_counter() - start
    answer = step.answer(found)
    step.finish(given)
    return seconds, answer


def work(name: str, suite: str, scale: float, repeat: int, folder: Path, jars: list[str]) -> None:
    """Be one peer: a line of JSON for each step, a line of input before the next."""
    peer = Peer(name, folder, session(name, folder, jars))
    try:
        steps = SUITES[suite][0](peer, scale)
        while sys.stdin.readline() and (step := next(steps, None)) is not None:
            try:
                runs = [_once(step)]
                while len(runs) <= repeat and not step.once and sum(run[0] for run in runs) < _ENOUGH_SECONDS:
                    runs.append(_once(step))
            except Exception as error:  # noqa: BLE001 - the others go on, and the table shows it
                print(f"{name} failed in {step.name}: {str(error)[:300]}", file=sys.stderr)
                print(_MARK + json.dumps([step.name, None, ""]), flush=True)
                continue
            seconds = [run[0] for run in runs[1:] or runs]
            print(_MARK + json.dumps([step.name, statistics.median(seconds), runs[-1][1]]), flush=True)
    finally:
        peer.spark.stop()


def measured(given: argparse.Namespace, suite: str, folder: Path) -> dict[str, dict[str, float]]:
    """Seconds of each step by each peer; of a run that is ended before (Ctrl-C, SIGTERM) of its complete steps."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    jars = {"official": [given.official] if given.official else [], "Delta": delta_jars(folder)}
    found: dict[str, dict[str, float]] = {}
    with ExitStack() as started:
        workers = {}
        for name in NAMES:
            own = jars.get(name.partition(",")[0])
            if own == [] or (name == "Delta" and not own) or (name.endswith("keyed") and suite in WITHOUT_KEYS):
                continue
            place = folder / suite / name.replace(", ", "-")
            place.mkdir(parents=True)
            command = [given.python, "-m", "benchmarks.published.run", "--worker", name, "--suite", suite]
            command += ["--scale", str(given.scale), "--repeat", str(given.repeat), "--folder", str(place)]
            command += ["--jars", ",".join(own or [])]
            pipe = subprocess.PIPE
            process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, text=True, cwd=page.ROOT, start_new_session=True
            )
            workers[name] = started.enter_context(process)
        try:
            _ask_in_turn(workers, suite, found)
        except KeyboardInterrupt:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            for process in workers.values():
                process.kill()
            peers = max(map(len, found.values()), default=0)
            return {step: seconds for step, seconds in found.items() if len(seconds) == peers}
    return found


def _ask_in_turn(workers: dict[str, subprocess.Popen[str]], suite: str, found: dict[str, dict[str, float]]) -> None:
    """Let each peer take a step, then all the next one, until they are done; note the seconds in `found`."""
    while workers:
        answers = {}
        for name, process in list(workers.items()):
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            line = next((line for line in process.stdout if line.startswith(_MARK)), "")
            if not line:
                del workers[name]
                if process.wait():
                    raise SystemExit(f"{name} failed in {suite}")
                continue
            step, seconds, answer = json.loads(line.removeprefix(_MARK))
            if seconds is None:
                continue
            answers[name] = answer
            found.setdefault(step, {})[name] = seconds
            print(f"  {suite}: {step}: {name}: {seconds:.2f}", file=sys.stderr, flush=True)
        if len(set(answers.values())) > 1:
            shown = {name: answer[:200] for name, answer in answers.items()}
            raise SystemExit(f"{suite}: the answers differ: {shown}")


def delta_jars(folder: Path) -> list[str]:
    """Delta Lake's jars of Maven; none where they cannot be had."""
    target = folder / "delta"
    for artifact in DELTA:
        copy = ["mvn", "-q", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={target}"]
        if subprocess.run(copy, check=False).returncode:
            return []
    return [str(jar) for jar in target.glob("*.jar")]


def main() -> None:
    """Print the tables; keep them and make the page, if asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--suite", choices=SUITES, action="append", help="all without this")
    parser.add_argument("--scale", type=float, help="1 is 1 GB; each suite has its own default")
    parser.add_argument("--repeat", type=int, default=3, help="runs after a warm-up; 0: one run without")
    parser.add_argument("--official", help="the official connector's jar; it is left out without this")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with PySpark 4.1")
    parser.add_argument("--busy", action="store_true", help="others use the machine: the page says so")
    parser.add_argument("--keep", action="store_true", help="write figures.json and the page")
    parser.add_argument("--worker", choices=NAMES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--jars", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        jars = [jar for jar in given.jars.split(",") if jar]
        work(given.worker, given.suite[0], given.scale, given.repeat, given.folder, jars)
        return
    runs = f"Runs of each step: {given.repeat}." if given.repeat else "One run of each step, no warm-up."
    for suite in given.suite or SUITES:
        busy = given.busy or not record.is_quiet()
        with tempfile.TemporaryDirectory() as folder:
            scale = SCALES[suite] if given.scale is None else given.scale
            found = measured(argparse.Namespace(**{**vars(given), "scale": scale}), suite, Path(folder))
        print(f"\n{SUITES[suite][1]}, scale {scale:g}\n\n{page.table(found)}")
        if given.keep:
            state = {
                "date": f"{date.today()}",
                "scale": scale,
                "busy": busy,
                "notes": [runs],
            }
            page.keep(suite, {**state, "seconds": found})
    if given.keep:
        page.main()


WITHOUT_KEYS = ("files",)
"""Suites whose tables have no keys, so that a peer with keys is the same as one without."""
SCALES = {"merges": 1.0, "refresh": 1.0, "micro": 0.1, "files": 0.02}
"""What is run without `--scale`: what a laptop does in minutes."""

if __name__ == "__main__":
    main()
