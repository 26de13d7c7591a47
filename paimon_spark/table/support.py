"""What this version cannot do yet, refused by name before the first byte is read or written.

Each rule is an option that would change rows if it were ignored. A rule goes when the feature comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paimon_spark.errors import UnsupportedError
from paimon_spark.spec.schema import BucketMode

if TYPE_CHECKING:
    from paimon_spark.spec.schema import TableSchema


def _is_true(value: str) -> bool:
    return value.strip().lower() == "true"


def _is_set(value: str) -> bool:
    return bool(value.strip())


def _one_of(*values: str) -> Callable[[str], bool]:
    return lambda value: value.strip().lower() in values


def _none_of(*values: str) -> Callable[[str], bool]:
    return lambda value: value.strip().lower() not in values


@dataclass(frozen=True, slots=True)
class _Rule:
    key: str
    refused: Callable[[str], bool]
    advice: str


_USE_JAVA = "Read and write this table with another Paimon engine."
_REMOVE = "Remove the option."
_INCREMENTAL = "Remove the option to read a whole snapshot."

_READ_RULES = (
    _Rule("type", _none_of("table"), "Only tables of type 'table' can be read and written."),
    _Rule("merge-engine", _none_of("deduplicate", "partial-update"), _USE_JAVA),
    _Rule("deletion-vectors.enabled", _is_true, _USE_JAVA),
    _Rule("data-evolution.enabled", _is_true, _USE_JAVA),
    _Rule("bucket", _one_of("-2"), "Rescale the postpone buckets with another Paimon engine first."),
    _Rule("scan.fallback-snapshot-branch", _is_set, "Read the branch by its name: <table>$branch_<branch>."),
    _Rule("scan.fallback-delta-branch", _is_set, "Read the branch by its name: <table>$branch_<branch>."),
    _Rule("chain-table.enabled", _is_true, _USE_JAVA),
    _Rule("blob-field", _is_set, _USE_JAVA),
    _Rule("blob-descriptor-field", _is_set, _USE_JAVA),
    _Rule("blob-view-field", _is_set, _USE_JAVA),
    _Rule("vector-field", _is_set, _USE_JAVA),
    _Rule("pk-clustering-override", _is_true, _USE_JAVA),
    _Rule("record-level.expire-time", _is_set, _USE_JAVA),
    _Rule("query-auth.enabled", _is_true, _USE_JAVA),
    _Rule("scan.file-creation-time-millis", _is_set, _INCREMENTAL),
    _Rule("scan.creation-time-millis", _is_set, _INCREMENTAL),
    _Rule("scan.bounded.watermark", _is_set, "It belongs to streaming reads."),
    _Rule("stream-scan-mode", _none_of("none"), "It belongs to streaming reads."),
    _Rule("batch-scan-mode", _none_of("none"), _REMOVE),
    _Rule("scan.ignore-corrupt-files", _is_true, _REMOVE),
    _Rule("scan.ignore-lost-files", _is_true, _REMOVE),
    _Rule("key-value.sequence_number.enabled", _is_true, _REMOVE),
    _Rule("postpone.merge-on-read", _is_true, _REMOVE),
)

_WRITE_RULES = (
    *(rule for rule in _READ_RULES if not rule.key.startswith(("scan.", "incremental-", "stream-", "batch-scan"))),
    _Rule("row-tracking.enabled", _is_true, _USE_JAVA),
    _Rule("sequence.snapshot-ordering", _is_true, _USE_JAVA),
    _Rule("global-index.enabled", _is_true, _USE_JAVA),
    _Rule("commit.strict-mode.last-safe-snapshot", _is_set, _REMOVE),
    _Rule("changelog-producer", _none_of("none"), _USE_JAVA),
    _Rule("data-file.external-paths", _is_set, _USE_JAVA),
    _Rule("index-file-in-data-file-dir", _is_true, _USE_JAVA),
    _Rule("write.sequence-number-init-mode", _none_of("scan"), _USE_JAVA),
    _Rule("primary-key.nullable", _is_true, _USE_JAVA),
    _Rule("file.format", _none_of("parquet", "orc", "avro"), "Data files can be parquet, orc or avro."),
)


def check_readable(schema: TableSchema) -> None:
    """Refuse a table (with its dynamic options) whose rows would come out wrong.

    Raises:
        UnsupportedError: names the option and what to do.
    """
    _check(schema.options, _READ_RULES, "Reading")
    _check_types(schema)


def check_writable(schema: TableSchema) -> None:
    """Refuse a table that a write would damage or fill with other rows than asked for.

    Raises:
        UnsupportedError: names the option and what to do.
    """
    _check(schema.options, _WRITE_RULES, "Writing")
    for key, value in schema.options.items():
        if key.startswith("file-index.") and key.endswith(".columns"):
            raise UnsupportedError(f"Writing with option '{key}' = '{value}' is not supported yet. {_USE_JAVA}")
    if schema.bucket_mode is BucketMode.KEY_DYNAMIC:
        raise UnsupportedError(
            f"Writing with 'bucket' = '-1' and the primary key {', '.join(schema.primary_keys)} is not supported yet, "
            f"because rows of a key may move between partitions. Put the partition columns "
            f"{', '.join(schema.partition_keys)} into the primary key, or write with another Paimon engine."
        )
    _check_types(schema)


def _check(options: Mapping[str, str], rules: tuple[_Rule, ...], deed: str) -> None:
    for rule in rules:
        value = options.get(rule.key)
        if value is not None and rule.refused(value):
            raise UnsupportedError(f"{deed} with option '{rule.key}' = '{value}' is not supported yet. {rule.advice}")


def _check_types(schema: TableSchema) -> None:
    for field in schema.fields:
        root = field.type.sql().split("(")[0].split(" ")[0]
        if root in ("BLOB", "GEOMETRY", "GEOGRAPHY"):
            raise UnsupportedError(
                f"Column '{field.name}' has the type {root}, which is not supported yet. {_USE_JAVA}"
            )
