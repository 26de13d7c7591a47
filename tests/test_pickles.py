"""What is pickled: what goes to tasks works there; what users hold has no way out; table files are never unpickled."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from paimon_spark.commit.file_store_commit import commit
from paimon_spark.errors import UnsupportedError
from paimon_spark.maintain.compact.compaction import compact
from paimon_spark.read.split_read import read_split
from paimon_spark.spark.table.paimon_table import PaimonTable
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.predicate import And, Leaf
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.table import create_table, load_table
from paimon_spark.write.plan import plan_write
from paimon_spark.write.task_write import write_batches
from tests.support.plans import plan_of

PACKAGE = Path(__file__).parent.parent / "paimon_spark"
UNPICKLERS = {"pickle", "cloudpickle", "marshal", "shelve", "dill", "joblib"}


def test_only_messages_of_tasks_are_unpickled() -> None:
    """Below `spark/`, where files of tables are read, nothing can unpickle or evaluate."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] == "spark":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                {a.name.split(".")[0] for a in node.names} if isinstance(node, ast.Import | ast.ImportFrom) else set()
            )
            called = node.func if isinstance(node, ast.Call) else None
            evaluates = isinstance(called, ast.Name) and called.id in ("eval", "exec", "compile", "__import__")
            allows = isinstance(node, ast.keyword) and node.arg == "allow_pickle"
            if names & UNPICKLERS or evaluates or allows:
                found.append(f"{path}:{getattr(node, 'lineno', 0)}")
    assert not found


class Bomb:
    """Leaves a file where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_pickles_in_a_table_are_bytes(tmp_path: Path, file_format: str) -> None:
    mark = tmp_path / "unpickled"
    bombs = [pickle.dumps(Bomb(mark), protocol) for protocol in (0, 2, 5)]
    pickle.loads(bombs[0])  # it does go off
    mark.unlink()
    fields = [DataField(0, "k", parse_type("VARBINARY(1000) NOT NULL")), DataField(1, "v", parse_type("BYTES"))]
    options = {"bucket": "1", "file.format": file_format, "write-only": "true", "metadata.stats-mode": "full"}
    table = create_table(str(tmp_path / "t"), create_schema(fields, ("k",), (), options))
    data = pa.table({"k": pa.array(bombs, pa.binary()), "v": pa.array(bombs[::-1], pa.binary())})
    for _ in range(2):
        plan = plan_write(table, data_schema=data.schema)
        commit(
            table, [pickle.loads(pickle.dumps(write_batches(pickle.loads(pickle.dumps(plan)), data.to_batches(), 0)))]
        )
    compact(load_table(table.path, options={"write-only": "false"}), full=True)
    read = pickle.loads(
        pickle.dumps(
            plan_of(load_table(table.path), predicate=And((Leaf("in", "k", tuple(bombs)), Leaf("is_not_null", "v"))))
        )
    )
    rows = [
        r for s in read.splits for b in read_split(read.table, s, read.fields, read.residual) for r in b.to_pylist()
    ]
    assert sorted(row["k"] for row in rows) == sorted(bombs)
    assert not mark.exists()


@pytest.mark.parametrize("by", [pickle, cloudpickle], ids=["pickle", "cloudpickle"])
def test_a_table_of_a_session_stays_in_its_process(by: Any) -> None:
    """A function of a user that mentions a `PaimonTable` would carry its credentials to files and tasks."""
    table = PaimonTable(None, "s3://b/t", {"s3.secret-key": "hush-hush"})  # type: ignore[arg-type]
    for held in (table, {"t": table}, lambda: table):
        if by is pickle and callable(held):
            continue
        with pytest.raises(UnsupportedError, match="belongs to its session") as caught:
            by.dumps(held)
        assert "hush" not in str(caught.value)
    assert "hush" not in repr(table)
