"""Schemas that Java refuses are refused with its words; those it takes are taken."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import OptionError, PaimonError, SchemaError
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import TableSchema, create_schema
from paimon_spark.spec.schema_validation import validate
from paimon_spark.spec.type_parser import parse_type

COLUMNS = (
    ("k", "INT"),
    ("p", "STRING"),
    ("v", "STRING"),
    ("n", "INT"),
    ("m", "INT"),
    ("g", "BIGINT"),
    ("arr", "ARRAY<INT>"),
    ("r", "ROW<a INT>"),
    ("ts9", "TIMESTAMP(9)"),
)


@dataclass(frozen=True)
class Case:
    words: str | None
    """What Java's and our message hold; None: a valid schema."""
    options: dict[str, str] = field(default_factory=dict)
    pk: Sequence[str] = ("k",)
    partition: Sequence[str] = ()
    columns: Sequence[tuple[str, str]] = COLUMNS
    in_oracle: bool = True
    """Whether Java says it at creation: some checks came after 1.4.2, and functions are checked at the first merge."""

    def __str__(self) -> str:
        return f"{self.words or 'valid'} {self.options}"[:90]


PARTIAL = {"merge-engine": "partial-update"}
AGGREGATION = {"merge-engine": "aggregation"}
FIRST_ROW = {"merge-engine": "first-row"}

CASES = (
    Case(None),
    Case(None, {"bucket": "3"}),
    Case(None, {"bucket": "-2"}),
    Case(None, pk=()),
    Case(None, {"bucket": "2", "bucket-key": "n"}, pk=()),
    Case(None, {"bucket": "2", "bucket-key": "k,p"}, pk=("k", "p")),
    Case("Cannot define 'bucket-key' with bucket = -1", {"bucket-key": "k"}),
    Case("The number of buckets needs to be greater than 0", {"bucket": "0"}),
    Case("The number of buckets needs to be greater than 0", {"bucket": "-2"}, pk=()),
    Case("You should define a 'bucket-key' for bucketed append mode", {"bucket": "2"}, pk=()),
    Case("should contains all bucket keys", {"bucket": "2", "bucket-key": "nope"}, pk=()),
    Case("should not in partition keys", {"bucket": "2", "bucket-key": "p"}, pk=(), partition=("p",)),
    Case("should contains all bucket keys", {"bucket": "2", "bucket-key": "n"}),
    Case("nested type can not in bucket-key", {"bucket": "2", "bucket-key": "arr"}, pk=()),
    Case("does not support 'full-compaction.delta-commits'", {"full-compaction.delta-commits": "2"}, pk=()),
    Case("should not be same with partition fields", pk=("p",), partition=("p",)),
    Case("in primary key field arr is unsupported", pk=("arr",)),
    Case("in partition field r is unsupported", pk=(), partition=("r",)),
    Case(
        "Field name[_SEQUENCE_NUMBER] in schema cannot be exist in", columns=(("k", "INT"), ("_SEQUENCE_NUMBER", "INT"))
    ),
    Case("Field name[rowkind] in schema cannot be exist in", columns=(("k", "INT"), ("rowkind", "INT"))),
    Case("Field name[_KEY_x] in schema cannot start with [_KEY_]", columns=(("k", "INT"), ("_KEY_x", "INT"))),
    Case("Field nope can not be found in table schema", {"fields.nope.aggregate-function": "sum", **AGGREGATION}),
    Case(
        "Nested-field path is not supported on ROW field 'r'", {"fields.r.a.aggregate-function": "sum"}, in_oracle=False
    ),
    Case("Sequence field: 'nope' can not be found in table schema", {"sequence.field": "nope"}),
    Case("Sequence field 'n' is defined repeatedly", {"sequence.field": "n,n"}),
    Case(
        "Should not define aggregation on sequence field: 'n'",
        {"sequence.field": "n", "fields.n.aggregate-function": "sum", **AGGREGATION},
    ),
    Case("Do not support use sequence field on FIRST_ROW merge engine", {"sequence.field": "n", **FIRST_ROW}),
    Case("You can not use sequence.field in cross partition update case", {"sequence.field": "n"}, partition=("p",)),
    Case(None, {"sequence.field": "n,m"}),
    Case("Can not set changelog-producer on table without primary keys", {"changelog-producer": "input"}, pk=()),
    Case(
        "because it will read duplicated changes",
        {"changelog-producer": "lookup", "streaming-read-overwrite": "true"},
    ),
    Case("streaming read the changes from overwrite", {"streaming-read-overwrite": "true"}, pk=()),
    Case(
        "'full-compaction.delta-commits' is incompatible with 'changelog-producer'='lookup'",
        {"changelog-producer": "lookup", "full-compaction.delta-commits": "2"},
        in_oracle=False,
    ),
    Case("changelog-producer on FIRST_ROW merge engine", {"changelog-producer": "input", **FIRST_ROW}),
    Case(None, {"changelog-producer": "lookup", **FIRST_ROW}),
    Case("snapshot.num-retained.min should be at least 1", {"snapshot.num-retained.min": "0"}),
    Case(
        "snapshot.num-retained.min should not be larger than snapshot.num-retained.max",
        {"snapshot.num-retained.min": "5", "snapshot.num-retained.max": "4"},
    ),
    Case("changelog.num-retained.min should be at least 1", {"changelog.num-retained.min": "0"}),
    Case(
        "changelog.num-retained.min should not be larger than changelog.num-retained.max",
        {"changelog.num-retained.min": "5", "changelog.num-retained.max": "4"},
    ),
    Case("Rowkind field: 'nope' can not be found in table schema", {"rowkind.field": "nope"}),
    Case("Can not find time field nope for record level expire", {"record-level.time-field": "nope"}),
    Case("The record level time field type should be one of INT, BIGINT", {"record-level.time-field": "v"}),
    Case(
        "Deletion vectors mode is only supported for NONE/INPUT/LOOKUP changelog producer",
        {"deletion-vectors.enabled": "true", "changelog-producer": "full-compaction"},
    ),
    Case("First row merge engine does not need deletion vectors", {"deletion-vectors.enabled": "true", **FIRST_ROW}),
    Case("Cannot define primary-key for row tracking table", {"row-tracking.enabled": "true"}),
    Case(
        "Cannot define bucket for row tracking table",
        {"row-tracking.enabled": "true", "bucket": "2", "bucket-key": "k"},
        pk=(),
    ),
    Case("Data evolution config must enabled with row-tracking.enabled", {"data-evolution.enabled": "true"}, pk=()),
    Case("Cannot define primary-key for incremental clustering table", {"clustering.incremental": "true"}),
    Case("Avro does not support TIMESTAMP type with precision: 9", {"file.format": "avro"}),
    Case(None, {"file.format": "orc"}, columns=(("k", "INT"), ("b", "BINARY(3)"))),
    Case("Unsupported type: VARIANT", {"file.format": "orc"}, columns=(("k", "INT"), ("b", "VARIANT"))),
    Case("does not exist in table schema", {"file-index.bloom-filter.columns": "nope"}, in_oracle=False),
    Case("must set only one key in", {"scan.mode": "from-snapshot"}),
    Case("must be null when you set", {"scan.snapshot-id": "1", "scan.timestamp-millis": "3"}),
    Case("must be null when you use latest-full for scan.mode", {"scan.mode": "latest-full", "scan.snapshot-id": "1"}),
    Case("can not be null when you use from-snapshot-full for scan.mode", {"scan.mode": "from-snapshot-full"}),
    # partial-update
    Case(None, {**PARTIAL, "fields.g.sequence-group": "v,n"}),
    Case(None, {**PARTIAL, "fields.g,m.sequence-group": "v,n", "fields.n.aggregate-function": "sum"}),
    Case(
        "which is not allowed. Primary key columns cannot be put in sequence-group",
        {**PARTIAL, "fields.g.sequence-group": "k"},
        in_oracle=False,
    ),
    Case(
        "Field v is defined repeatedly by multiple groups",
        {**PARTIAL, "fields.g.sequence-group": "v", "fields.m.sequence-group": "v"},
    ),
    Case("can not be found in table schema", {**PARTIAL, "fields.g.sequence-group": "nope"}),
    Case(
        "Must use sequence group for aggregation functions but not found for field n",
        {**PARTIAL, "fields.n.aggregate-function": "sum"},
    ),
    Case(None, {**PARTIAL, "fields.n.aggregate-function": "last_non_null_value"}),
    Case(
        "have conflicting behavior so should not be enabled at the same time",
        {**PARTIAL, "ignore-delete": "true", "partial-update.remove-record-on-delete": "true"},
    ),
    Case(
        "have conflicting behavior so should not be enabled at the same time",
        {**PARTIAL, "fields.g.sequence-group": "v", "partial-update.remove-record-on-delete": "true"},
    ),
    Case(
        "option must be part of sequence groups",
        {**PARTIAL, "fields.g.sequence-group": "v", "partial-update.remove-record-on-sequence-group": "m"},
    ),
    # aggregation
    Case(None, {**AGGREGATION, "fields.n.aggregate-function": "sum"}),
    Case(
        "or spell aggregate function incorrectly",
        {**AGGREGATION, "fields.n.aggregate-function": "smu"},
        in_oracle=False,
    ),
    Case("Data type for sum column must be", {**AGGREGATION, "fields.v.aggregate-function": "sum"}, in_oracle=False),
    Case("column must be", {**AGGREGATION, "fields.n.aggregate-function": "listagg"}, in_oracle=False),
    Case("column must be", {**AGGREGATION, "fields.n.aggregate-function": "bool_and"}, in_oracle=False),
    Case(
        "have conflicting behavior so should not be enabled at the same time",
        {
            **AGGREGATION,
            "fields.n.aggregate-function": "sum",
            "fields.n.ignore-retract": "true",
            "aggregation.remove-record-on-delete": "true",
        },
        in_oracle=False,
    ),
    # values of options
    Case("bucket", {"bucket": "many"}),
    Case("merge-engine", {"merge-engine": "dedup"}, in_oracle=False),
)


def build(case: Case) -> TableSchema:
    fields = [DataField(0, name, parse_type(text)) for name, text in case.columns]
    return create_schema(fields, case.pk, case.partition, case.options)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ours(case: Case) -> None:
    schema = build(case)
    if case.words is None:
        validate(schema)
        return
    with pytest.raises((SchemaError, OptionError)) as caught:
        validate(schema)
    assert case.words in str(caught.value)


@pytest.mark.oracle
@pytest.mark.parametrize("case", [case for case in CASES if case.in_oracle], ids=str)
def test_java_agrees(case: Case, oracle: Any) -> None:
    name = f"db.v{CASES.index(case)}"

    def create() -> None:
        oracle.create(
            name, list(case.columns), pk=list(case.pk), partition=list(case.partition), options=dict(case.options)
        )

    if case.words is None:
        create()
        return
    with pytest.raises(Exception) as caught:  # noqa: PT011 - PaimonJavaError cannot be imported without the oracle
        create()
    assert case.words in str(caught.value) + str(getattr(caught.value, "chain", ""))


def test_golden_schemas_are_valid(golden: Path) -> None:
    paths = sorted(golden.glob("*/table/**/schema/schema-*"))
    assert len(paths) > 150
    for path in paths:
        validate(TableSchema.from_json(path.read_bytes(), path=str(path)))


@pytest.mark.parametrize(
    ("options", "pk", "words"),
    [
        ({"primary-key": "k"}, ("k",), "Cannot define primary key on DDL and table options at the same time."),
        ({}, ("k", "k"), "must not contain duplicate columns"),
        ({}, ("nope",), "should include all primary key constraint"),
    ],
)
def test_keys_are_checked_at_once(options: dict[str, str], pk: tuple[str, ...], words: str) -> None:
    with pytest.raises(PaimonError, match=words.replace("(", r"\(")):
        create_schema([DataField(0, "k", parse_type("INT"))], pk, (), options)


@pytest.mark.parametrize(
    "options", [{"bucket": "1", "bucket-key": "k, n"}, {**PARTIAL, "fields.g.sequence-group": "v, n"}]
)
def test_blanks_in_lists_of_an_existing_schema(options: dict[str, str]) -> None:
    schema = build(Case(None, {}, pk=("k", "p") if "bucket-key" not in options else ()))
    with pytest.raises(OptionError, match=" n"):
        validate(schema.with_options(options))


def test_defaults_must_parse() -> None:
    good = create_schema([DataField(0, "k", parse_type("INT"), None, "'5'")])
    validate(good)
    bad = create_schema([DataField(0, "k", parse_type("INT"), None, "five")])
    with pytest.raises(SchemaError, match="Unsupported default value `five` for type INT"):
        validate(bad)
