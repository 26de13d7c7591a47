import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from paimon_spark.errors import SchemaError, UnsupportedError
from paimon_spark.spark.columns.types import (
    from_spark_struct,
    from_spark_type,
    spark_arrow_schema,
    to_spark_struct,
    to_spark_type,
)
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.type_parser import parse_type_sql

SAME_BOTH_WAYS = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INT": "int",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DECIMAL(38, 18)": "decimal(38,18)",
    "STRING": "string",
    "BYTES": "binary",
    "DATE": "date",
    "TIMESTAMP(6)": "timestamp_ntz",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": "timestamp",
    "VARIANT": "variant",
    "ARRAY<INT NOT NULL>": "array<int>",
    "MAP<STRING NOT NULL, ARRAY<DATE>>": "map<string,array<date>>",
}
READ_ONLY = {
    "CHAR(3)": "string",
    "VARCHAR(3)": "string",
    "BINARY(3)": "binary",
    "VARBINARY(3)": "binary",
    "BLOB": "binary",
    "TIME(3)": "int",
    "TIMESTAMP(0)": "timestamp_ntz",
    "TIMESTAMP(9)": "timestamp_ntz",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": "timestamp",
    "MULTISET<STRING>": "map<string,int>",
    "VECTOR<FLOAT, 3>": "array<float>",
    "ROW<a INT, b ARRAY<TIME(3)>>": "struct<a:int,b:array<int>>",
}


@pytest.mark.parametrize("paimon", SAME_BOTH_WAYS)
def test_types_that_come_back(paimon: str) -> None:
    data_type = parse_type_sql(paimon)
    assert to_spark_type(data_type).simpleString() == SAME_BOTH_WAYS[paimon]
    assert from_spark_type(to_spark_type(data_type), nullable=True, where="c") == data_type


@pytest.mark.parametrize("paimon", READ_ONLY)
def test_types_that_spark_shows_as_others(paimon: str) -> None:
    assert to_spark_type(parse_type_sql(paimon)).simpleString() == READ_ONLY[paimon]


def test_nullability_and_comments_of_columns() -> None:
    fields = [
        DataField(0, "k", parse_type_sql("INT NOT NULL"), "the key"),
        DataField(1, "m", parse_type_sql("MAP<INT NOT NULL, INT NOT NULL>")),
    ]
    struct = to_spark_struct(fields)
    assert struct["k"].nullable is False
    assert struct["k"].metadata == {"comment": "the key"}
    assert struct["m"].nullable is True
    assert struct["m"].dataType.valueContainsNull is False
    created = from_spark_struct(struct)
    assert [(f.name, f.type.sql(), f.description) for f in created] == [
        ("k", "INT NOT NULL", "the key"),
        ("m", "MAP<INT NOT NULL, INT NOT NULL>", None),
    ]


def test_char_and_varchar_are_kept_on_creation() -> None:
    struct = spark.StructType(
        [
            spark.StructField("a", spark.StringType(), True, {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}),
            spark.StructField("b", spark.VarcharType(7)),
        ]
    )
    assert [f.type.sql() for f in from_spark_struct(struct)] == ["CHAR(5)", "VARCHAR(7)"]


@pytest.mark.parametrize("data_type", [spark.NullType(), spark.DayTimeIntervalType(), spark.YearMonthIntervalType()])
def test_types_paimon_does_not_have(data_type: spark.DataType) -> None:
    struct = spark.StructType([spark.StructField("r", spark.StructType([spark.StructField("x", data_type)]))])
    with pytest.raises(UnsupportedError, match=r"Not a supported type: .* column r\.x in Spark"):
        from_spark_struct(struct)


def test_two_columns_of_one_name() -> None:
    struct = spark.StructType([spark.StructField("a", spark.LongType()), spark.StructField("A", spark.LongType())])
    with pytest.raises(SchemaError, match="A, a"):
        from_spark_struct(struct)


def test_arrow_schema_is_sparks_own() -> None:
    schema = spark_arrow_schema(
        to_spark_struct([DataField(0, "t", parse_type_sql("TIMESTAMP(3) WITH LOCAL TIME ZONE"))])
    )
    assert schema.field("t").type == pa.timestamp("us", "UTC")
