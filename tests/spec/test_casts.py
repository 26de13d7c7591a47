"""Casts of schema evolution: value for value what Java reads after a column's type has changed."""

import math
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_spark.errors import DataError, SchemaError
from paimon_spark.spec.arrow_types import to_arrow_type
from paimon_spark.spec.casts import can_cast, cast_array, cast_default
from paimon_spark.spec.data_types import DataType, DecimalType, RowType
from paimon_spark.spec.type_parser import parse_type

LTZ = " WITH LOCAL TIME ZONE"
TYPES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"),
    *("DECIMAL(5, 2)", "DECIMAL(18, 0)", "DECIMAL(30, 10)", "DECIMAL(38, 38)", "DECIMAL(38, 0)"),
    *("CHAR(3)", "VARCHAR(4)", "STRING", "BINARY(3)", "VARBINARY(4)", "BYTES", "DATE", "TIME(0)", "TIME(3)"),
    *("TIMESTAMP(0)", "TIMESTAMP(2)", "TIMESTAMP(3)", "TIMESTAMP(5)", "TIMESTAMP(6)", "TIMESTAMP(9)"),
    *(f"TIMESTAMP(3){LTZ}", f"TIMESTAMP(6){LTZ}", "ARRAY<INT>", "MAP<STRING, INT>", "ROW<a INT, b STRING>", "VARIANT"),
)
WIDE = Context(prec=60)
CLOCKS = (datetime(1970, 1, 1), datetime(2024, 2, 29, 12, 34, 56, 789012), datetime(2000, 1, 1, 0, 0, 0, 120000))


def decimals(data_type: DecimalType) -> list[Decimal]:
    smallest = Decimal(1).scaleb(-data_type.scale)
    greatest = Decimal(10**data_type.precision - 1).scaleb(-data_type.scale, WIDE)
    values = [Decimal(0), smallest, smallest.copy_negate(), greatest, greatest.copy_negate()]
    if data_type.precision - data_type.scale >= 3:
        values += [Decimal(text).quantize(smallest, context=WIDE) for text in ("12", "-127.5", "2.5")]
    return values


def clocks(precision: int, zone: Any) -> list[datetime]:
    step = 10 ** max(0, 6 - precision)
    return [clock.replace(microsecond=clock.microsecond // step * step, tzinfo=zone) for clock in CLOCKS]


def sample(text: str) -> list[Any]:
    """Values of a type that casts may stumble over."""
    data_type = parse_type(text)
    if isinstance(data_type, DecimalType):
        return decimals(data_type)
    if text.startswith("TIMESTAMP"):
        return clocks(int(text[10]), UTC if text.endswith(LTZ) else None)
    floats = [0.0, -0.0, 1.5, -2.5, 0.1, 1e10, 1e-5, 123.456, 2.5, -1e20]
    return {
        "BOOLEAN": [True, False],
        "TINYINT": [0, 1, -1, 127, -128],
        "SMALLINT": [0, 1, -1, 300, -32768, 32767],
        "INT": [0, 1, -1, 70000, -(2**31), 2**31 - 1],
        "BIGINT": [0, 1, -1, 2**30 + 7, -(2**31) - 1, 9223372036],
        "FLOAT": [*floats, 3.4e38, 16777217.0],
        "DOUBLE": [*floats, 1e300, 1.005, 9.2e18, 1e7, 0.001, 999.995],
        "CHAR(3)": ["abc", "a", ""],
        "VARCHAR(4)": ["abcd", "a", "", "äöü"],
        "STRING": ["abcdefgh", "a", "", "äöü€𝄞"],
        "BINARY(3)": [b"abc", b"a", b""],
        "VARBINARY(4)": [b"abcd", b"a", b""],
        "BYTES": [b"abcdef", b"a", b""],
        "DATE": [date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(1900, 1, 1)],
        "TIME(0)": [time(0), time(23, 59, 59, 999000), time(12, 30, 1, 120000), time(1, 2, 3)],
        "TIME(3)": [time(0), time(23, 59, 59, 999000), time(12, 30, 1, 120000), time(1, 2, 3)],
        "ARRAY<INT>": [[1, None, 3], []],
        "MAP<STRING, INT>": [[("a", 1), ("b", None)], []],
        "ROW<a INT, b STRING>": [{"a": 1, "b": "x"}, {"a": None, "b": None}],
        "VARIANT": [],
    }[text]


DECIMAL_TEXTS = ["0", "0.005", "-0.005", "1e1", "+1.5", ".5", "9" * 41, "1E-50"]
CLOCK_TEXTS = ["2024-02-29 12:34:56.789012345", "2024-2-9 1:2:3", "1969-12-31 23:59:59.999999999", "2024-01-01"]
TEXTS: dict[str, list[str]] = {
    "BOOLEAN": ["t", "True", "yes", "0", "N"],
    "TINYINT": ["1", "-128", "+5", "3.9", ".5", "127"],
    "SMALLINT": ["1", "-32768", "."],
    "INT": ["2147483647", "-0", "1."],
    "BIGINT": ["-9223372036854775808", "12.99"],
    "FLOAT": ["1", "1e5", "-Infinity", " 2.5 ", "1f", ".5", "1.17549435E-38"],
    "DOUBLE": ["1", "1e5", "Infinity", "2.5d", "-0"],
    "DATE": ["2024-02-29", "2024-2-9", "12345", "2024-03", "2017-12-12 09:30:00.0", "1600-01-01", "-5"],
    "TIME(0)": ["12:30:01", "12:30:01.5", "3", "12", "12:30", "12:30:01.1239", "12:30:01-01:00"],
    "TIME(3)": ["12:30:01.120"],
    **{name: DECIMAL_TEXTS for name in TYPES if name.startswith("DECIMAL")},
    **{name: CLOCK_TEXTS for name in TYPES if name.startswith("TIMESTAMP")},
}


def plain(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values to compare: instants as numbers, floats by their text (so that NaN and -0.0 count)."""
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if pa.types.is_timestamp(array.type):
        return [str(array.type), *array.cast(pa.int64()).to_pylist()]
    return [repr(value) if isinstance(value, float) else value for value in array.to_pylist()]


def inputs(source: str, target: str) -> list[Any]:
    if source == "STRING":
        return TEXTS.get(target, sample(source))
    if source in ("CHAR(3)", "VARCHAR(4)") and target in TEXTS:
        return [] if target.startswith("TIMESTAMP") else ["1", "0"]
    return sample(source)


@pytest.mark.oracle
@pytest.mark.parametrize("source", TYPES)
def test_java_reads_the_same(oracle: Any, source: str) -> None:
    """A column per target type; each is altered (or refused), then the table is read once."""
    name = f"db.cast_{TYPES.index(source)}"
    targets = [target for target in TYPES if target != source]
    columns = {f"c{at}": inputs(source, target) for at, target in enumerate(targets)}
    rows = max(len(values) for values in columns.values()) + 1
    arrow_type = to_arrow_type(parse_type(source))
    data = {"id": pa.array(range(rows), pa.int32())} | {
        column: pa.array([*values, *[None] * (rows - len(values))], arrow_type) for column, values in columns.items()
    }
    oracle.create(name, [("id", "INT"), *((column, source) for column in columns)], options={"file.format": "parquet"})
    oracle.write(name, pa.table(data))
    allowed = {}
    for column, target in zip(columns, targets, strict=True):
        ours = can_cast(parse_type(source), parse_type(target))
        if ours:
            oracle.alter(name, ("type", column, target))
            allowed[column] = target
        else:
            with pytest.raises(Exception, match="cannot be converted"):
                oracle.alter(name, ("type", column, target))
    java = oracle.read(name).sort_by("id")
    for column, target in allowed.items():
        result = cast_array(data[column], parse_type(source), parse_type(target))
        result.validate(full=True)
        assert result.type == to_arrow_type(parse_type(target))
        assert plain(result) == plain(java.column(column)), target


def cast(values: list[Any], source: str, target: str) -> list[Any]:
    array = pa.array(values, to_arrow_type(parse_type(source)))
    result = cast_array(array, parse_type(source), parse_type(target))
    result.validate(full=True)
    return result.to_pylist()


def test_java_after_1_4() -> None:
    """What the oracle's version still had wrong, as later versions do it."""
    before = datetime(1969, 12, 31, 23, 59, 59, 120000)
    assert cast([before], "TIMESTAMP(3)", "DATE") == [date(1969, 12, 31)]
    assert cast([datetime(1900, 1, 1, 0, 0, 0, 1)], "TIMESTAMP(6)", "TIMESTAMP(5)") == [datetime(1900, 1, 1)]
    assert cast(["2024-01-01T00:00"], "STRING", "TIMESTAMP(3)") == [datetime(2024, 1, 1)]
    # Java (all versions) rounds to milliseconds down, but from there to two digits towards 1970
    assert cast([before.replace(microsecond=123456)], "TIMESTAMP(6)", "TIMESTAMP(2)") == [
        before.replace(microsecond=130000)
    ]
    assert cast([before], "TIMESTAMP(3)", "INT") == [0]  # Java divides towards zero


def test_special_floats() -> None:
    values = [math.nan, math.inf, -math.inf, 1e19, -1e19]
    assert cast(values, "DOUBLE", "BIGINT") == [0, 2**63 - 1, -(2**63), 2**63 - 1, -(2**63)]
    assert cast(values, "DOUBLE", "INT") == [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31)]
    assert cast(values, "DOUBLE", "TINYINT") == [0, -1, 0, -1, 0]
    assert cast(values[:3], "DOUBLE", "STRING") == ["NaN", "Infinity", "-Infinity"]
    with pytest.raises(DataError, match="NaN"):
        cast([math.nan], "DOUBLE", "DECIMAL(5, 2)")


@pytest.mark.parametrize(
    ("text", "target"),
    [
        *(("x", "INT"), ("", "INT"), ("-", "INT"), ("1e3", "INT"), ("128", "TINYINT"), ("2147483648", "INT")),
        *(
            ("9223372036854775808", "BIGINT"),
            ("maybe", "BOOLEAN"),
            ("1,5", "DOUBLE"),
            ("nan", "DOUBLE"),
            ("1_0", "DOUBLE"),
        ),
        *((" 1", "DECIMAL(5, 2)"), ("NaN", "DECIMAL(5, 2)"), ("2023-02-29", "DATE"), ("today", "DATE"), ("", "DATE")),
        *(("24:00:00", "TIMESTAMP(3)"), ("2024-01-01 24:00:00", "TIMESTAMP(3)"), ("1:x", "TIME(0)"), ("\u0663", "INT")),
        *(("2024-01-01 00:00:00.0000000001", "TIMESTAMP(9)"), ("5", "TIMESTAMP(2)"), ("9999-01-01", "TIMESTAMP(9)")),
    ],
)
def test_texts_that_do_not_parse(text: str, target: str) -> None:
    with pytest.raises(DataError):
        cast([text], "STRING", target)


def test_huge_exponents_are_harmless() -> None:
    assert cast(["1e999999999", "1e-999999999"], "STRING", "DECIMAL(38, 10)") == [None, Decimal("0E-10")]


def row(*items: tuple[int, str, str]) -> RowType:
    text = {"type": "ROW", "fields": [{"id": i, "name": n, "type": t} for i, n, t in items]}
    parsed = parse_type(text)
    assert isinstance(parsed, RowType)
    return parsed


def nested_cast(values: list[Any], source: DataType, target: DataType) -> list[Any]:
    array = pa.array([None, *values, None], to_arrow_type(source))
    for part in (array, array.slice(1), array.slice(1, len(values))):
        result = cast_array(part, source, target)
        result.validate(full=True)
        assert result.type == to_arrow_type(target)
        assert len(result) == len(part)
    return cast_array(array, source, target).to_pylist()[1:-1]


def test_rows_by_field_id() -> None:
    old, new = row((1, "a", "INT"), (2, "b", "STRING")), row((2, "bb", "STRING"), (3, "c", "DATE"), (1, "a", "BIGINT"))
    values = [{"a": 1, "b": "x"}, {"a": None, "b": None}]
    expected = [{"bb": "x", "c": None, "a": 1}, {"bb": None, "c": None, "a": None}]
    assert can_cast(old, new)
    assert nested_cast(values, old, new) == expected
    assert nested_cast(
        [[values[0]], [], values],
        parse_type({"type": "ARRAY", "element": old.to_json()}),
        parse_type({"type": "ARRAY", "element": new.to_json()}),
    ) == [[expected[0]], [], expected]
    maps = [parse_type({"type": "MAP", "key": "STRING", "value": inner.to_json()}) for inner in (old, new)]
    assert nested_cast([[("k", values[0])], []], *maps) == [[("k", expected[0])], []]
    assert not can_cast(parse_type("MAP<INT, INT>"), parse_type("MAP<STRING, INT>"))


def test_nullability_is_not_a_cast() -> None:
    array = pa.array([1, 2], pa.int32())
    assert cast_array(array, parse_type("INT NOT NULL"), parse_type("INT")) is array
    assert can_cast(parse_type("INT NOT NULL"), parse_type("INT"), explicit=False)
    assert not can_cast(parse_type("INT"), parse_type("INT NOT NULL"), explicit=False)


@pytest.mark.parametrize(
    ("source", "target", "implicit"),
    [
        ("INT", "BIGINT", True),
        ("BIGINT", "INT", False),
        ("INT", "DOUBLE", True),
        ("STRING", "INT", False),
        ("INT", "STRING", False),
    ],
)
def test_implicit_casts(source: str, target: str, implicit: bool) -> None:
    assert can_cast(parse_type(source), parse_type(target), explicit=False) == implicit


def test_no_such_cast() -> None:
    with pytest.raises(SchemaError, match="Cannot cast from type INT to type ARRAY<INT>"):
        cast([1], "INT", "ARRAY<INT>")


def test_chunks_and_dictionaries() -> None:
    chunked = pa.chunked_array([[1, 2], [], [300]], pa.int32())
    result = cast_array(chunked, parse_type("INT"), parse_type("TINYINT"))
    assert result.to_pylist() == [1, 2, 44]
    encoded = pa.array(["1", "2", "1"]).dictionary_encode()
    assert cast_array(encoded, parse_type("STRING"), parse_type("INT")).to_pylist() == [1, 2, 1]


def test_defaults() -> None:
    assert cast_default("'2024-01-31'", parse_type("DATE")).as_py() == date(2024, 1, 31)
    assert cast_default("5", parse_type("BIGINT")).as_py() == 5
    assert cast_default("'", parse_type("STRING")).as_py() == "'"
    with pytest.raises(SchemaError):
        cast_default("x", parse_type("VARIANT"))


NESTED_DEFAULTS = [
    ("ARRAY<INT>", "array(1, 2)"),
    ("ARRAY<INT>", "[1, null, 3]"),
    ("ARRAY<INT>", "ARRAY()"),
    ("ARRAY<STRING>", "array(a b, \"c\", 'd')"),
    ("ARRAY<ARRAY<INT>>", "[[1, 2], []]"),
    ("ARRAY<DATE>", "[2024-01-31]"),
    ("MAP<INT, DOUBLE>", "map(99, 99.99D)"),
    ("MAP<STRING, INT>", '{a -> 1, "b,c" -> null}'),
    ("MAP<BIGINT, STRING>", 'map(9999, "hello")'),
    ("MAP<INT, ARRAY<INT>>", "map(1, array(2, 3))"),
    ("ROW<a INT, b STRING>", "struct(1, x)"),
    ("ROW<a INT, b ARRAY<INT>>", "{1, [2, 3]}"),
    ("ROW<a INT, b STRING>", "{}"),
    ("ARRAY<INT>", "array(x)"),
    ("ARRAY<INT>", "1, 2"),
    ("MAP<INT, INT>", "map(1, 2, 3)"),
    ("ROW<a INT, b INT>", "{1}"),
]


def test_nested_defaults_are_javas(oracle: Any) -> None:
    """Java reads the same values of the same texts, and refuses the same."""
    java, ours = [], []
    for number, (data_type, text) in enumerate(NESTED_DEFAULTS):
        name = f"defaults.t{number}"
        oracle.create(name, [("k", "INT"), ("v", data_type)])
        try:
            oracle.alter(name, ("default", "v", text))
            oracle.write(name, [(1, None)])
            java.append(oracle.read(name)["v"][0].as_py())
        except Exception as error:  # noqa: BLE001
            java.append("refused" if "default" in str(error) else str(error))
        try:
            ours.append(cast_default(text, parse_type(data_type)).as_py())
        except (DataError, SchemaError):
            ours.append("refused")
    assert ours == java
    assert java.count("refused") == 4


@given(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=20),
    st.sampled_from(["TINYINT", "SMALLINT", "INT", "FLOAT", "DOUBLE"]),
)
def test_integers_wrap_like_numpy(values: list[int | None], target: str) -> None:
    kind = {"TINYINT": np.int8, "SMALLINT": np.int16, "INT": np.int32, "FLOAT": np.float32, "DOUBLE": np.float64}[
        target
    ]
    assert cast(values, "BIGINT", target) == [None if v is None else np.int64(v).astype(kind).item() for v in values]


@given(st.lists(st.none() | st.decimals(-(10**18), 10**18, places=8), max_size=20), st.integers(1, 38), st.data())
def test_decimals_round_half_up(values: list[Decimal | None], precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, precision))

    def rounded(value: Decimal) -> Decimal | None:
        unscaled = int((abs(value).scaleb(scale, WIDE) + Decimal("0.5")).to_integral_value("ROUND_FLOOR", WIDE))
        if unscaled >= 10**precision:
            return None
        return Decimal(unscaled).scaleb(-scale, WIDE).copy_sign(value)

    expected = [None if value is None else rounded(value) for value in values]
    assert cast(values, "DECIMAL(38, 8)", f"DECIMAL({precision}, {scale})") == expected
