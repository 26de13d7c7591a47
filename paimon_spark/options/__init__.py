"""Every option: key, type, default, meaning; and the typed view of a table's options."""

from paimon_spark.options.core_options import CoreOptions, is_secret
from paimon_spark.options.option import (
    Option,
    OptionKind,
    Refusal,
    Scope,
    Stage,
    parse_duration,
    parse_memory_size,
)
from paimon_spark.options.refusal import (
    GOVERNED,
    accept_given,
    accept_stored,
    log_ignored,
    refuse,
    refuse_without_server,
    without_governing,
)
from paimon_spark.options.registry import (
    LOCK_OPTIONS,
    METASTORE_OPTIONS,
    OPTIONS,
    PATTERNS,
    canonical_options,
    check_new_options,
    find_option,
    reaching_options,
    unknown_option_error,
    with_scope,
)

__all__ = [
    "GOVERNED",
    "LOCK_OPTIONS",
    "METASTORE_OPTIONS",
    "OPTIONS",
    "PATTERNS",
    "CoreOptions",
    "Option",
    "OptionKind",
    "Refusal",
    "Scope",
    "Stage",
    "accept_given",
    "accept_stored",
    "canonical_options",
    "check_new_options",
    "find_option",
    "is_secret",
    "log_ignored",
    "parse_duration",
    "parse_memory_size",
    "reaching_options",
    "refuse",
    "refuse_without_server",
    "unknown_option_error",
    "with_scope",
    "without_governing",
]
