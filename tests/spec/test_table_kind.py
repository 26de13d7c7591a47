"""The kind of a table follows from its keys and options, and says what the layers need to know."""

import pickle

import pytest

from paimon_spark.spec import table_kind as kinds
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.schema import TableSchema

FIELDS = tuple(DataField(at, name, IntType()) for at, name in enumerate("pkv"))


def schema(primary_keys: str = "", partition_keys: str = "", **options: str) -> TableSchema:
    named = {key.replace("_", "."): value for key, value in options.items()}
    return TableSchema(3, 0, FIELDS, 2, tuple(partition_keys), tuple(primary_keys), named)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (schema(), kinds.APPEND),
        (schema(bucket="4"), kinds.APPEND_BUCKETED),
        (schema(bucket="4").with_options({"data-evolution.enabled": "true"}), kinds.DATA_EVOLUTION),
        (schema("k", bucket="4"), kinds.KEYED_FIXED),
        (schema("k"), kinds.KEYED_DYNAMIC),
        (schema("pk", "p"), kinds.KEYED_DYNAMIC),
        (schema("k", "p"), kinds.CROSS_PARTITION),
        (schema("k", "p", bucket="4"), kinds.KEYED_FIXED),
        (schema("k", bucket="-2"), kinds.POSTPONED),
    ],
)
def test_keys_and_options_decide_the_kind(made: TableSchema, kind: kinds.TableKind) -> None:
    assert made.kind == kind
    assert made.bucket_mode is kind.bucket_mode
    assert pickle.loads(pickle.dumps(made)).kind == kind


_KINDS = [kind for kind in vars(kinds).values() if isinstance(kind, kinds.TableKind)]


def test_every_kind_says_how_a_row_finds_its_bucket() -> None:
    assert len(_KINDS) >= 7
    for kind in _KINDS:
        ways = (
            not kind.has_buckets,
            kind.hashes_to_buckets,
            kind.assigns_buckets,
            kind.updates_across_partitions,
            kind.postpones_buckets,
        )
        assert sum(ways) == 1, kind.name
    assert len({kind.name for kind in _KINDS}) == len(_KINDS)
