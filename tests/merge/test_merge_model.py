"""The merge kernels against a row-at-a-time model, with random tables, options, rows and ways to cut them."""

from __future__ import annotations

import os
import pickle

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paimon_spark.errors import DataError
from paimon_spark.merge.stream import merge_sorted_runs
from tests.support.merge_cases import (
    TYPES_OF,
    MergeCase,
    aggregate_options,
    aggregation_cases,
    canonical,
    deduplicate_cases,
    first_row_cases,
    partial_update_cases,
    rows_for,
    rows_of,
)
from tests.support.merge_model import ModelError, ModelTable

EXAMPLES = int(os.environ.get("PAIMON_SPARK_EXAMPLES", "40"))
CHECKS = settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))


def check(case: MergeCase, *, drop_deletes: bool) -> None:
    model = ModelTable(case.columns, case.keys, case.options)
    engine = pickle.loads(pickle.dumps(case.engine()))
    try:
        expected = model.merge(case.rows, drop_deletes=drop_deletes)
    except ModelError:
        with pytest.raises(DataError):
            engine.merge(case.table(), drop_deletes=drop_deletes)
        return
    merged = engine.merge(case.table(), drop_deletes=drop_deletes)
    merged.validate(full=False)
    assert [canonical(row) for row in rows_of(merged)] == [canonical(row) for row in expected]


@CHECKS
@given(deduplicate_cases(), st.booleans())
def test_deduplicate_is_the_model(case: MergeCase, drop_deletes: bool) -> None:
    check(case, drop_deletes=drop_deletes)


@CHECKS
@given(partial_update_cases(aggregates=False), st.booleans())
def test_partial_update_without_aggregates_is_the_model(case: MergeCase, drop_deletes: bool) -> None:
    check(case, drop_deletes=drop_deletes)


@CHECKS
@given(partial_update_cases(aggregates=True), st.booleans())
def test_partial_update_with_aggregates_is_the_model(case: MergeCase, drop_deletes: bool) -> None:
    check(case, drop_deletes=drop_deletes)


@CHECKS
@given(aggregation_cases(), st.booleans())
def test_aggregation_is_the_model(case: MergeCase, drop_deletes: bool) -> None:
    check(case, drop_deletes=drop_deletes)


@CHECKS
@given(first_row_cases(), st.booleans())
def test_first_row_is_the_model(case: MergeCase, drop_deletes: bool) -> None:
    check(case, drop_deletes=drop_deletes)


@st.composite
def one_column(draw: st.DrawFn, function: str) -> MergeCase:
    """One column of an aggregation table, many rows of few keys."""
    columns = {"k": "INT NOT NULL", "v": draw(st.sampled_from(TYPES_OF[function]))}
    options = {"merge-engine": "aggregation", **draw(aggregate_options("v", function))}
    if draw(st.integers(0, 2)) == 0:
        options["aggregation.remove-record-on-delete"] = "true"
        options.pop("fields.v.ignore-retract", None)
    retracts = draw(st.booleans())
    return MergeCase(columns, ["k"], options, draw(rows_for(columns, ["k"], retracts=retracts, nulls=0.3, most=20)))


@pytest.mark.parametrize("function", sorted(TYPES_OF))
def test_every_function_of_aggregation_is_the_model(function: str) -> None:
    @settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(one_column(function), st.booleans())
    def run(case: MergeCase, drop_deletes: bool) -> None:
        check(case, drop_deletes=drop_deletes)

    run()


@st.composite
def one_aggregate(draw: st.DrawFn, function: str) -> MergeCase:
    """One aggregated column in one sequence group, many rows of few keys."""
    columns = {"k": "INT NOT NULL", "v": draw(st.sampled_from(TYPES_OF[function])), "g": "INT"}
    if draw(st.booleans()):
        columns = {name: columns[name] for name in ("k", "g", "v")}
    options = {
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "v",
        **draw(aggregate_options("v", function)),
    }
    if draw(st.booleans()):
        options["partial-update.remove-record-on-sequence-group"] = "g"
    rows = draw(rows_for(columns, ["k"], retracts=draw(st.integers(0, 2)) == 0, nulls=0.3, most=20))
    rows = [{**row, "g": draw(st.sampled_from([None, 1, 2, 3, 4]))} for row in rows]
    return MergeCase(columns, ["k"], options, rows)


@pytest.mark.parametrize("function", sorted(TYPES_OF))
def test_every_aggregate_in_a_group_is_the_model(function: str) -> None:
    @settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(one_aggregate(function), st.booleans())
    def run(case: MergeCase, drop_deletes: bool) -> None:
        check(case, drop_deletes=drop_deletes)

    run()


@CHECKS
@given(
    st.one_of(deduplicate_cases(), partial_update_cases(aggregates=False), aggregation_cases(), first_row_cases()),
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 600),
)
def test_streamed_runs_are_the_merge_of_all(case: MergeCase, runs: int, batch: int, budget: int) -> None:
    engine = case.engine()
    by_run = [[row for i, row in enumerate(case.rows) if i * runs // max(len(case.rows), 1) == n] for n in range(runs)]
    tables = []
    for rows in by_run:
        table = MergeCase(case.columns, case.keys, case.options, rows).table()
        order = engine.layout.sort(table).order
        tables.append(table.take(pa.array(order)))
    whole = pa.concat_tables(tables)
    try:
        expected = rows_of(engine.merge(whole, drop_deletes=False))
    except DataError:
        return
    streamed = list(
        merge_sorted_runs(
            [iter(table.combine_chunks().to_batches(max_chunksize=batch)) for table in tables],
            engine,
            budget_bytes=budget,
            drop_deletes=False,
        )
    )
    rows = rows_of(pa.Table.from_batches(streamed, schema=whole.schema))
    assert [canonical(row) for row in rows] == [canonical(row) for row in expected]
