"""The options that concern a commit, read once; and the ones that a commit refuses.

How long and how often a commit is tried again say the options ``commit.*retry*`` and ``commit.timeout``. Equals Java's
``RetryWaiter`` and the loop of ``FileStoreCommitImpl.tryCommit`` (docs/internals/format.md §8).
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from paimon_spark.commit.manifest_merge import ManifestMergeOptions
from paimon_spark.options import Stage, refuse

if TYPE_CHECKING:
    from datetime import timedelta

    from paimon_spark.options import CoreOptions

_JITTER = 0.2
"""Largest part of a wait that is added to it at random, so that rivals do not meet again."""


@dataclass(slots=True)
class Retries:
    """The attempts of one snapshot: counts them, waits between them, and knows when to stop."""

    max_retries: int
    min_wait_millis: int
    max_wait_millis: int
    timeout_millis: int | None
    """None is without end."""
    count: int = 0
    """Retries so far."""
    _started: float = field(default_factory=time.monotonic)

    @property
    def elapsed_millis(self) -> int:
        """Milliseconds since the first attempt began."""
        return int((time.monotonic() - self._started) * 1000)

    @property
    def exhausted(self) -> bool:
        """Whether no further attempt is allowed."""
        late = self.timeout_millis is not None and self.elapsed_millis > self.timeout_millis
        return late or self.count >= self.max_retries

    def wait(self) -> None:
        """Wait before the next attempt: twice as long as before, at most `max_wait_millis`, plus up to a fifth."""
        millis = min(self.min_wait_millis * 2 ** min(self.count, 40), self.max_wait_millis)
        self.count += 1
        time.sleep(millis * (1 + random.uniform(0, _JITTER)) / 1000)


@cache
def writer_version() -> str:
    """Return the writer version that snapshots record: ``paimon-spark-<version>``."""
    try:
        return f"paimon-spark-{version('paimon-spark')}"
    except PackageNotFoundError:
        return "paimon-spark"


@dataclass(frozen=True, slots=True)
class CommitSettings:
    """Options of a table as a commit needs them."""

    max_retries: int
    min_retry_wait_millis: int
    max_retry_wait_millis: int
    timeout_millis: int | None
    manifest_merge: ManifestMergeOptions
    manifest_codec: str
    """Avro's name of ``manifest.compression``."""
    zstd_level: int
    drop_delete_stats: bool
    discard_duplicate_files: bool
    overwrite_upgrade: bool
    max_level: int
    """The highest LSM level."""
    keep_empty: bool
    """Whether a commit without changes makes a snapshot even with ``ignore_empty``."""
    strict_after: int | None
    """``commit.strict-mode.last-safe-snapshot``."""
    row_tracking: bool
    row_ids_by_partition: bool
    snapshot_ordering: bool
    sequence_in_properties: bool
    """Whether snapshots carry the highest sequence number (``write.sequence-number-init-mode`` = snapshot)."""

    @classmethod
    def of(cls, options: CoreOptions) -> CommitSettings:
        """Read the options of a table.

        Raises:
            UnsupportedError: an option asks for what a commit cannot do yet.
            OptionError: an option's value cannot be used.
        """
        refuse(options, Stage.COMMIT)
        ignore_empty = options.value("snapshot.ignore-empty-commit")
        return cls(
            max_retries=options.commit_max_retries,
            min_retry_wait_millis=_millis(options.commit_min_retry_wait),
            max_retry_wait_millis=_millis(options.commit_max_retry_wait),
            timeout_millis=None if options.commit_timeout is None else _millis(options.commit_timeout),
            manifest_merge=ManifestMergeOptions(
                target_size_bytes=options.value("manifest.target-file-size"),
                full_threshold_bytes=options.value("manifest.full-compaction-threshold-size"),
                min_count=options.value("manifest.merge-min-count"),
            ),
            manifest_codec=_codec(options),
            zstd_level=options.zstd_level,
            drop_delete_stats=options.value("manifest.delete-file-drop-stats"),
            discard_duplicate_files=options.value("commit.discard-duplicate-files"),
            overwrite_upgrade=options.value("overwrite-upgrade"),
            max_level=options.num_levels - 1,
            keep_empty=ignore_empty is False or options.value("commit.force-create-snapshot"),
            strict_after=options.value("commit.strict-mode.last-safe-snapshot"),
            row_tracking=options.row_tracking_enabled,
            row_ids_by_partition=bool(options.value("row-tracking.partition-group-on-commit")),
            snapshot_ordering=options.value("sequence.snapshot-ordering"),
            sequence_in_properties=options.value("write.sequence-number-init-mode") == "snapshot",
        )

    def retries(self) -> Retries:
        """Return the attempts of one snapshot, none of them used."""
        return Retries(self.max_retries, self.min_retry_wait_millis, self.max_retry_wait_millis, self.timeout_millis)


def _millis(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)


def _codec(options: CoreOptions) -> str:
    """Return the Avro codec of manifests (Java: ``AvroFileFormat.createCodecFactory``)."""
    codec = str(options.get("avro.codec", None) or options.value("manifest.compression")).lower()
    return {"zstd": "zstandard", "none": "null"}.get(codec, codec)
