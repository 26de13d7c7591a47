"""What the catalogs with locks have in common: their options. Java: ``AbstractCatalog.lockEnabled``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from paimon_spark.errors import TableBusyError
from paimon_spark.options import find_option
from paimon_spark.storage.directory_markers import NO_DIRECTORIES
from paimon_spark.storage.store_options import FSSPEC_SCHEME, scheme_of


@dataclass(frozen=True)
class LockOptions:
    """Whether commits take the catalog's lock, and how long they wait for it."""

    enabled: bool
    longest_wait: timedelta
    longest_sleep: timedelta

    @staticmethod
    def of(options: Mapping[str, str]) -> LockOptions:
        """Read the options of a catalog.

        Raises:
            OptionError: one has a value that it cannot have.
        """
        enabled = option_value(options, "lock.enabled")
        return LockOptions(
            _is_object_store(options.get("warehouse", "")) if enabled is None else enabled,
            option_value(options, "lock-acquire-timeout"),
            option_value(options, "lock-check-max-sleep"),
        )

    def busy(self, lock: str) -> TableBusyError:
        """Say that others held a lock for too long."""
        return TableBusyError(
            f"The lock {lock} of the catalog was held by others for {self.longest_wait.total_seconds():g} seconds "
            "('lock-acquire-timeout'). Nothing was done; run it again."
        )


def option_value(options: Mapping[str, str], key: str) -> Any:
    """The value of an option of a catalog, or its default."""
    option = find_option(key)
    assert option is not None, key
    return option.parse(options[key]) if key in options else option.default


def _is_object_store(warehouse: str) -> bool:
    """Whether Java takes locks where `lock.enabled` is not set (``FileIO.isObjectStore``)."""
    scheme = scheme_of(warehouse)
    return FSSPEC_SCHEME.get(scheme, scheme) in NO_DIRECTORIES
