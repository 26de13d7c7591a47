"""Filters and columns that a Connect client tells the loads of its plans: rows and errors stay what they were."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
FRAMES, TEXTS = 30, 20


def test_a_plan_of_many_steps_is_sent_as_it_is() -> None:
    from pyspark.sql.connect.proto import Relation

    from paimon_spark.spark.pushdown.loads import push_down

    relation = Relation()
    relation.read.data_source.format = "paimon"
    for _ in range(600):
        outer = Relation()
        outer.limit.input.CopyFrom(relation)
        outer.limit.limit = 1
        relation = outer
    assert not push_down(relation, Client())


class Client:
    """One that has kept no rows."""


@pytest.mark.turns("connect")
def test_rows_and_errors_of_random_frames_and_texts_stay_the_same(connect: str, tmp_path: Path) -> None:
    program = "tests/spark/connect_push_down_program.py"
    done = subprocess.run(
        [sys.executable, program, connect, tmp_path, str(FRAMES), str(TEXTS)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *failed, told, by_texts, end = done.stdout.splitlines()
    assert not failed
    assert end == "done"
    assert int(told.removeprefix("told ")) > FRAMES / 4
    assert int(by_texts.removeprefix("told ")) > TEXTS / 2
