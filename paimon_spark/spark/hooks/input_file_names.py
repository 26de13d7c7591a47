"""``input_file_name()`` over tables without primary keys is the column of the file's path."""

from __future__ import annotations

from paimon_spark.read.metadata_columns import FILE_PATH
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.rules import add_rule

_CLASS = "PaimonInputFileNames"


def install_input_file_names(gateway: Gateway, state: JavaObject) -> None:
    """Let the analyzer of a session state know the rule; errors as of `add_rule`."""
    add_rule(gateway, state, (compat.RESOLUTION_RULES,), _CLASS, ("java.lang.String", FILE_PATH))
