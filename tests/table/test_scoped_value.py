"""A value is found by what a block calls: the innermost block's, in its own thread, until the block ends."""

import threading

import pytest

from paimon_spark.spec.kept_values import ScopedValue


def test_the_innermost_block_counts() -> None:
    value: ScopedValue[list[int]] = ScopedValue("test")
    assert value.get() is None
    with value.bound_to([1]) as outer:
        assert value.get() is outer
        with value.bound_to([2]) as inner:
            assert value.get() is inner
        with pytest.raises(ZeroDivisionError), value.bound_to([3]):
            _ = 1 / 0
        assert value.get() is outer
    assert value.get() is None


def test_another_thread_has_a_value_of_its_own() -> None:
    value: ScopedValue[str] = ScopedValue("test")
    seen: list[str | None] = []
    with value.bound_to("mine"):
        thread = threading.Thread(target=lambda: seen.append(value.get()))
        thread.start()
        thread.join()
    assert seen == [None]
