"""Counts calls of functions of the package, under whatever name a module has imported them, and jobs of Spark."""

from __future__ import annotations

import functools
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def counted(*functions: Callable[..., Any]) -> Iterator[Counter[str]]:
    """Count the calls of module-level functions while the block runs, in every thread; the counter has their names."""
    calls: Counter[str] = Counter()
    replaced: list[tuple[Any, str, Callable[..., Any]]] = []
    for function in functions:
        counting = _counting(function, calls)
        for module in [module for name, module in sys.modules.items() if name.startswith("paimon_spark")]:
            for name in [name for name, value in vars(module).items() if value is function]:
                setattr(module, name, counting)
                replaced.append((module, name, function))
    try:
        yield calls
    finally:
        for module, name, function in replaced:
            setattr(module, name, function)


def _counting(function: Callable[..., Any], calls: Counter[str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        calls[function.__name__] += 1
        return function(*given, **named)

    return call


@contextmanager
def jobs_of(spark: SparkSession) -> Iterator[list[int]]:
    """Find the jobs that Spark starts while the block runs; the list is filled at its end."""
    context, found = spark.sparkContext, list[int]()
    group = f"counted {uuid.uuid4()}"
    context.setJobGroup(group, group)
    try:
        yield found
    finally:
        found += context.statusTracker().getJobIdsForGroup(group)
        for name in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]
