"""Every option: key, type, default, meaning; and the typed view of a table's options."""

from paimon_spark.options.core_options import CoreOptions, is_secret
from paimon_spark.options.option import Option, OptionKind, Scope, parse_duration, parse_memory_size
from paimon_spark.options.registry import (
    OPTIONS,
    PATTERNS,
    canonical_options,
    check_new_options,
    find_option,
    unknown_option_error,
    with_scope,
)

__all__ = [
    "OPTIONS",
    "PATTERNS",
    "CoreOptions",
    "Option",
    "OptionKind",
    "Scope",
    "canonical_options",
    "check_new_options",
    "find_option",
    "is_secret",
    "parse_duration",
    "parse_memory_size",
    "unknown_option_error",
    "with_scope",
]
