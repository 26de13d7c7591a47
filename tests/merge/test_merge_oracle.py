"""The kernels against Java: what its write buffer makes of a commit, and what its merge reader makes of several."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from paimon_spark.errors import DataError
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.special_fields import SEQUENCE_NUMBER, VALUE_KIND
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.formats import open_data_file
from tests.support.merge_cases import (
    CALM_VALUES,
    NESTED,
    MergeCase,
    aggregation_cases,
    canonical,
    engine_of,
    partial_update_cases,
    rows_of,
    rows_table,
)

pytestmark = pytest.mark.oracle
NEWER_OPTIONS = ("nested-sequence-field", "nested-key-null-strategy", "count-limit")
"""Options that Paimon 1.4 does not have, or treats otherwise."""


def canonical_rows(columns: Mapping[str, str], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows to compare; the elements of hash tables (sets, maps, keyed nested tables) have no order."""
    result = []
    for row in rows:
        values = {name: canonical(value) for name, value in row.items()}
        for name, kind in columns.items():
            if (kind == NESTED or kind.startswith("ARRAY")) and values[name] is not None:
                values[name] = sorted(values[name], key=repr)
        result.append(values)
    return result


def file_rows(path: Path, columns: Mapping[str, str]) -> pa.Table:
    fields = [DataField(i, name, parse_type(kind)) for i, (name, kind) in enumerate(columns.items())]
    reader = open_data_file(FileIO.for_path(str(path), {}), str(path), "parquet", path.stat().st_size)
    return pa.Table.from_batches(list(reader.read_batches([*fields, SEQUENCE_NUMBER, VALUE_KIND])))


def fails(action: Callable[[], Any]) -> bool:
    """Whether Java throws."""
    try:
        action()
    except Exception as error:
        if type(error).__name__ != "PaimonJavaError":
            raise
        return True
    return False


@st.composite
def java_cases(draw: st.DrawFn, cases: st.SearchStrategy[MergeCase]) -> tuple[MergeCase, int]:
    """A case over which Java 1.4 and 2 agree, and in how many commits it is written."""
    case = draw(cases)
    assume(case.options.get("ignore-delete") is None)  # the rows would not reach the files
    assume(len(case.rows) >= 2)
    retracts = any(row["_VALUE_KIND"] % 2 for row in case.rows)
    if case.options["merge-engine"] == "aggregation":  # a read of 1.4 shows a null in a NOT NULL column
        assume(not retracts or case.columns.get("d") != "BIGINT NOT NULL")
    extremes = [
        name for name in case.columns if case.options.get(f"fields.{name}.aggregate-function") in ("max", "min")
    ]
    assume(all(case.columns[name] != "BOOLEAN" for name in extremes))  # 1.4 cannot compare them
    options = {key: text for key, text in case.options.items() if not key.endswith(NEWER_OPTIONS)}
    options.pop("sequence.field.sort-order", None)  # the write buffer of 1.4 sorts by ascending sequences all the same
    distinct_bytes = [
        name
        for name, kind in case.columns.items()
        if kind == "ARRAY<BYTES>" or (kind == NESTED and f"fields.{name}.nested-key" not in options)
    ]
    for name in distinct_bytes:  # 1.4 compares byte arrays by identity
        options.pop(f"fields.{name}.distinct", None)
    for name, kind in case.columns.items():
        if kind == "ARRAY<BYTES>":
            options[f"fields.{name}.ignore-retract"] = "true"
    return MergeCase(case.columns, case.keys, options, case.rows), draw(st.integers(1, 4))


SAME_EACH_TIME: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
}


@pytest.mark.slow
@settings(max_examples=120, **SAME_EACH_TIME)
@given(java_cases(partial_update_cases(pools=CALM_VALUES)))
def test_write_buffer_and_merge_reader(oracle: Any, given_case: tuple[MergeCase, int]) -> None:
    check(oracle, *given_case)


@pytest.mark.slow
@settings(max_examples=int(os.environ.get("PAIMON_SPARK_EXAMPLES", "60")), **SAME_EACH_TIME)
@given(java_cases(aggregation_cases(pools=CALM_VALUES)))
def test_write_buffer_and_merge_reader_of_aggregation(oracle: Any, given_case: tuple[MergeCase, int]) -> None:
    check(oracle, *given_case)


def check(oracle: Any, case: MergeCase, commits: int) -> None:
    name = oracle.fresh_name("db")
    engine = engine_of(case.columns, case.keys, case.options)
    oracle.create(
        name,
        list(case.columns.items()),
        pk=list(case.keys),
        options={**case.options, "bucket": "1", "write-only": "true", "file.format": "parquet"},
    )
    (folder,) = Path(oracle.warehouse).glob(f"{name.replace('.', '.db/')}")
    files: list[Path] = []
    sequence = 0
    for commit in range(commits):
        rows = [dict(row) for i, row in enumerate(case.rows) if i * commits // len(case.rows) == commit]
        if not rows:
            continue
        for row in rows:
            row["_SEQUENCE_NUMBER"] = sequence
            sequence += 1
        table = rows_table(case.columns, rows)
        columns = [*case.columns, "_kind"]
        if fails(lambda: oracle.write(name, table.drop_columns(["_SEQUENCE_NUMBER"]).rename_columns(columns))):  # noqa: B023
            with pytest.raises(DataError):
                engine.merge(table, drop_deletes=False)
            return
        (written,) = set(folder.glob("bucket-0/*.parquet")) - set(files)
        files.append(written)
        merged = engine.merge(table, drop_deletes=False)
        sequence = pc.max(merged.column("_SEQUENCE_NUMBER")).as_py() + 1  # Java goes on behind what the file holds
        assert canonical_rows(case.columns, rows_of(merged)) == canonical_rows(
            case.columns, rows_of(file_rows(written, case.columns))
        )
    runs = pa.concat_tables([file_rows(path, case.columns) for path in files])
    if fails(lambda: oracle.read(name)):
        with pytest.raises(DataError):
            engine.merge(runs, drop_deletes=True)
        return
    read = oracle.read(name)
    merged = engine.merge(runs, drop_deletes=True, key_value_columns=False)
    ours = canonical_rows(case.columns, rows_of(merged))
    theirs = canonical_rows(case.columns, rows_of(read.select(list(case.columns)).cast(merged.schema)))
    assert sorted(ours, key=repr) == sorted(theirs, key=repr)
