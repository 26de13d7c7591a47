"""Writes `paimon_spark/options/keyword_types.py`: the options as keywords, so that editors complete them."""

import keyword
from pathlib import Path

from paimon_spark.options.option import Scope
from paimon_spark.options.registry import OPTIONS

LOCATION = Path(__file__).parents[2] / "paimon_spark" / "options" / "keyword_types.py"
_HEAD = '''"""Options as typed keywords, for editors and type checkers: made by `tests/readme/keyword_options.py`.

Every other option is given by its key: ``**{"fields.v.aggregate-function": "sum"}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TypedDict

OptionValue = str | int | float | bool | Sequence[str] | timedelta | None


class KeywordOptions(TypedDict, total=False):
    """Dots and dashes of keys are underscores."""

'''
_OWN = ("partition_overwrite_mode", "replace_where", "replaceWhere", "partitionOverwriteMode")
_SCOPES = (Scope.TABLE, Scope.READ, Scope.WRITE)


def text() -> str:
    """Return the source of the module."""
    found = {key.replace(".", "_").replace("-", "_") for key, option in OPTIONS.items() if option.scope in _SCOPES}
    names = sorted(name for name in {*found, *_OWN} if name.isidentifier() and not keyword.iskeyword(name))
    return _HEAD + "".join(f"    {name}: OptionValue\n" for name in names)


if __name__ == "__main__":
    LOCATION.write_text(text(), encoding="utf-8")
