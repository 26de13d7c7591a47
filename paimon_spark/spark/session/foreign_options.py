"""Options of other formats that users try first: those that have an equal here, and advice for the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_spark.errors import OptionError

SAME_AS: Final[Mapping[str, str]] = {"versionasof": "scan.version", "mergeschema": "write.merge-schema"}
"""Options (in lower case) of Delta and of Spark's files, and the option here that means the same."""

_INSTEAD: Final[Mapping[str, str]] = {
    "timestampasof": "'scan.timestamp' = '2024-01-31 10:20:30' reads as of a time, the driver's local one unless it "
    "names its zone as in '…+00:00'; SQL has TIMESTAMP AS OF",
    "overwriteschema": "mode('overwrite') keeps the table's columns. CREATE OR REPLACE TABLE … AS SELECT gives new "
    "ones, ALTER TABLE changes them, and 'write.merge-schema' = 'true' adds those that the table lacks",
    "snapshot-id": "'scan.snapshot-id' = '5' reads a snapshot",
    "as-of-timestamp": "'scan.timestamp-millis' reads as of a time",
    "tag": "'scan.tag-name' reads a tag",
    **dict.fromkeys(
        ("readchangefeed", "readchangedata", "startingversion", "startingtimestamp", "start-snapshot-id"),
        "'incremental-between' = '1,5' reads the changes after one snapshot or tag up to another, "
        "'incremental-between-timestamp' those between two times",
    ),
}


def as_paimon_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options, those of other formats under Paimon's keys.

    Raises:
        OptionError: one has no meaning here (the message says what to use), or is given in both spellings.
    """
    lowered = {key.lower() for key in options}
    translated: dict[str, str] = {}
    for key, value in options.items():
        same = SAME_AS.get(key.lower())
        if same is not None and same in lowered:
            raise OptionError(f"option '{key}' is Paimon's '{same}', which is given too: leave one of them out")
        instead = _INSTEAD.get(key.lower())
        if instead is not None:
            raise OptionError(f"Unknown option '{key}': {instead}.")
        translated[key if same is None else same] = value
    return translated
