import datetime

import pyarrow as pa
import pytest

from paimon_spark.errors import SchemaMismatchError
from paimon_spark.spark.columns.arrow_cast import conversion, convert_batches

NANOS = pa.timestamp("ns")
MICROS = pa.timestamp("us")


def converted(array: pa.Array, target: pa.DataType) -> pa.Array:
    convert = conversion(array.type, target)
    assert convert is not None
    result = convert(array)
    result.validate(full=True)
    assert result.type == target
    return result


@pytest.mark.parametrize("cut", [slice(None), slice(1, None), slice(3, 5), slice(5, None)])
def test_nanoseconds_are_floored_also_before_1970(cut: slice) -> None:
    nanos = pa.array([1999, None, -1, -1000, -1001], pa.int64())[cut].cast(NANOS)
    expected = pa.array([1, None, -1, -1, -2], pa.int64())[cut].cast(MICROS)
    assert converted(nanos, MICROS).equals(expected)
    zoned = converted(nanos.cast(pa.timestamp("ns", "UTC")), pa.timestamp("us", "UTC"))
    assert zoned.equals(expected.cast(pa.timestamp("us", "UTC")))


def test_slices_of_arrays_that_carry_offsets() -> None:
    whole = pa.array([5000, None, 7000, 8000, None, 1], NANOS)
    assert converted(whole[2:], MICROS).cast(pa.int64()).to_pylist() == [7, 8, None, 0]


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_coarser_timestamps(unit: str) -> None:
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59)
    assert converted(pa.array([moment, None], pa.timestamp(unit)), MICROS).to_pylist() == [moment, None]


def test_time_is_milliseconds_of_the_day() -> None:
    array = pa.array([0, None, 86_399_999], pa.int32()).view(pa.time32("ms"))
    assert converted(array[1:], pa.int32()).to_pylist() == [None, 86_399_999]


@pytest.mark.parametrize("cut", [slice(None), slice(1, None), slice(2, 3), slice(1, 3), slice(4, None)])
def test_nested_values_of_any_slice(cut: slice) -> None:
    inner = pa.struct([("t", NANOS), ("x", pa.time32("ms")), pa.field("n", pa.int8(), nullable=False)])
    source = pa.map_(pa.string(), pa.list_(inner))
    target_inner = pa.struct([("t", MICROS), ("x", pa.int32()), pa.field("n", pa.int8(), nullable=False)])
    target = pa.map_(pa.string(), pa.list_(target_inner))

    def rows(t: int, x: object) -> list[object]:
        row = {"t": t, "x": x, "n": 1}
        return [[("a", [row, None]), ("b", None)], None, [], [("c", []), ("d", [row, row])]]

    array = pa.array(rows(1999, datetime.time(0, 0, 1)), source)
    assert converted(array[cut], target).to_pylist() == pa.array(rows(1, 1000), target)[cut].to_pylist()


def test_nullability_follows_the_target() -> None:
    source = pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int32())]))
    target = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    assert converted(source[:2], target).to_pylist() == [{"a": 1}, None]


def test_equal_columns_pass_untouched() -> None:
    batch = pa.record_batch({"a": [1, 2], "b": ["x", "y"]})
    target = pa.schema([("b", pa.string()), pa.field("a", pa.int64(), nullable=False)])
    (result,) = convert_batches([batch], target.names, target)
    assert result.schema.equals(target)
    assert result.column(1).buffers()[1].address == batch.column(0).buffers()[1].address


def test_a_missing_column_is_named() -> None:
    with pytest.raises(SchemaMismatchError, match="column b is not among those that came"):
        list(convert_batches([pa.record_batch({"a": [1]})], ["b"], pa.schema([("x", pa.int64())])))
