"""The bucket as an SQL expression of Spark's functions equals the bucket that Java gives a row."""

import datetime
import random
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from paimon_spark.spark.columns.bucket_expression import bucket_expression
from paimon_spark.spark.columns.types import to_spark_struct
from paimon_spark.spec import data_types as paimon
from paimon_spark.spec.arrow_types import to_arrow_schema
from paimon_spark.spec.hashing import bucket_ids
from paimon_spark.spec.schema import TableSchema, create_schema

pytestmark = pytest.mark.spark

_TEXT = paimon.VarCharType(length=paimon.VarCharType.MAX)
_BYTES = paimon.VarBinaryType(length=paimon.VarBinaryType.MAX)
COLUMNS = {
    "bool": paimon.BooleanType(),
    "tiny": paimon.TinyIntType(),
    "small": paimon.SmallIntType(),
    "int": paimon.IntType(),
    "long": paimon.BigIntType(),
    "date": paimon.DateType(),
    "dec": paimon.DecimalType(precision=18, scale=4),
    "ntz": paimon.TimestampType(precision=6, nullable=False),
    "ltz": paimon.LocalZonedTimestampType(precision=6, nullable=False),
    "text": _TEXT,
    "bytes": _BYTES,
    "odd `name": paimon.BigIntType(nullable=False),
}
KEYS = [[name] for name in COLUMNS] + [["text", "long"], ["bytes", "ntz", "text"], ["ltz", "small", "bool", "date"]]


def _schema(keys: list[str], function: str = "default") -> TableSchema:
    fields = [paimon.DataField(number, name, kind) for number, (name, kind) in enumerate(COLUMNS.items())]
    options = {"bucket": "7", "bucket-key": ",".join(keys)}
    return create_schema(fields, (), (), {**options, "bucket-function.type": function}, None)


def _values(number: int) -> dict[str, object]:
    chance = random.Random(number)
    size = chance.choice([0, 1, 6, 7, 8, 9, 15, 16, 17, 40])
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=chance.randint(-(10**15), 10**15))
    row: dict[str, object] = {
        "bool": chance.random() < 0.5,
        "tiny": chance.randint(-128, 127),
        "small": chance.randint(-(2**15), 2**15 - 1),
        "int": chance.randint(-(2**31), 2**31 - 1),
        "long": chance.choice([-(2**63), 2**63 - 1, 0, -1, chance.randint(-(2**63), 2**63 - 1)]),
        "date": datetime.date(1900, 1, 1) + datetime.timedelta(days=chance.randint(0, 80_000)),
        "dec": Decimal(chance.randint(-(10**18) + 1, 10**18 - 1)).scaleb(-4),
        "ntz": moment,
        "ltz": moment.replace(tzinfo=datetime.UTC),
        "text": "".join(chance.choice("aé€z") for _ in range(size)),
        "bytes": chance.randbytes(size),
        "odd `name": chance.randint(-(2**63), 2**63 - 1),
    }
    return {name: None if COLUMNS[name].nullable and chance.random() < 0.1 else value for name, value in row.items()}


def test_every_type_and_null(spark: SparkSession) -> None:
    rows = pa.Table.from_pylist(
        [_values(number) for number in range(500)],
        schema=to_arrow_schema([paimon.DataField(0, n, t) for n, t in COLUMNS.items()]),
    )
    frame = spark.createDataFrame(rows.to_pylist(), to_spark_struct(_schema(["int"]).fields))
    texts = {str(keys): bucket_expression(_schema(keys)) for keys in KEYS}
    mod = {f"mod {name}": bucket_expression(_schema([name], "mod")) for name in ("int", "long")}
    assert None not in [*texts.values(), *mod.values()]
    found = frame.selectExpr(*[f"{text} AS `{number}`" for number, text in enumerate([*texts.values(), *mod.values()])])
    table = found.toArrow()
    for number, keys in enumerate([*KEYS, ["int"], ["long"]]):
        function = "default" if number < len(KEYS) else "mod"
        columns = [rows.column(name).combine_chunks() for name in keys]
        wanted = bucket_ids(columns, [COLUMNS[name] for name in keys], 7, function)
        assert table.column(number).to_pylist() == wanted.tolist(), (keys, function)


@pytest.mark.parametrize(
    "kind",
    [paimon.DoubleType(), paimon.CharType(length=3), paimon.DecimalType(precision=20, scale=0), paimon.VarCharType(9)],
)
def test_types_without_an_expression(kind: paimon.DataType) -> None:
    schema = create_schema([paimon.DataField(0, "k", kind)], (), (), {"bucket": "2", "bucket-key": "k"}, None)
    assert bucket_expression(schema) is None
