"""The file that says that a partition or a tag is whole (Java: ``SuccessFile``)."""

from __future__ import annotations

import json
import time

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.json_text import pretty_json

_CREATION, _MODIFICATION = "creationTime", "modificationTime"


def renewed_success_file(old: bytes | None, *, path: str) -> bytes:
    """Return a success file of now; one that is there keeps its creation time.

    Raises:
        CorruptTableError: what is there is no success file.
    """
    now = int(time.time() * 1000)
    created = now
    if old is not None:
        try:
            created = int(json.loads(old)[_CREATION])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptTableError(f"The success file {path} cannot be read.", path=path) from error
    return pretty_json({_CREATION: created, _MODIFICATION: now}).encode()
