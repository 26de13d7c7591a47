"""A value that functions called inside a block find, whoever calls them: what a statement measures, for example."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class ScopedValue(Generic[_Value]):
    """The value of the innermost block of this thread; None outside of each block."""

    def __init__(self, name: str) -> None:
        self._variable: ContextVar[_Value | None] = ContextVar(name, default=None)

    def get(self) -> _Value | None:
        """The value of the innermost block."""
        return self._variable.get()

    @contextlib.contextmanager
    def bound_to(self, value: _Value) -> Iterator[_Value]:
        """Let functions inside the block find the value."""
        before = self._variable.set(value)
        try:
            yield value
        finally:
            self._variable.reset(before)
