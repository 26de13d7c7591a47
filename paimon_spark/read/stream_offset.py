"""Where a stream stands: a snapshot, how many of its files are read, and whether the whole state is being read.

Java's connector notes the last split that was read (``PaimonSourceOffset``), a number that depends on filters and on
the size of splits. Here it is a number of files in an order that depends on the snapshot alone (`stream_step`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paimon_spark.errors import PaimonError

_KEYS = ("snapshot", "position", "full")
_OFFICIAL = "snapshotId"


@dataclass(frozen=True, slots=True, order=True)
class StreamOffset:
    """What is read next."""

    snapshot_id: int
    """The snapshot that is read next; it may not exist yet."""
    position: int = 0
    """How many of its files are read already."""
    full: bool = False
    """Whether the state at the snapshot is read, not its changes."""

    def to_json(self) -> dict[str, Any]:
        """The offset as Spark keeps it in the checkpoint."""
        return {"snapshot": self.snapshot_id, "position": self.position, "full": self.full}

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> StreamOffset:
        """Return the offset that a checkpoint holds.

        Raises:
            PaimonError: it is none of ours; the message says what to do.
        """
        if _OFFICIAL in value:
            raise PaimonError(
                f"The checkpoint was written by another Paimon connector, whose offset {dict(value)} names a split of "
                "its own. Start with a new checkpoint directory and the options 'scan.mode' = 'from-snapshot', "
                f"'scan.snapshot-id' = '{value[_OFFICIAL]}', which reads that snapshot's changes once more."
            )
        snapshot_id, position, full = (value.get(key) for key in _KEYS)
        counts = all(type(number) is int and number >= 0 for number in (snapshot_id, position))
        if not counts or type(full) is not bool:
            raise PaimonError(
                f"The checkpoint holds the offset {dict(value)}, which is none of a Paimon stream: use a checkpoint "
                "directory of its own for each query."
            )
        return cls(int(str(snapshot_id)), int(str(position)), full)

    def following(self) -> StreamOffset:
        """The offset behind all files of the snapshot."""
        return StreamOffset(self.snapshot_id + 1)
