"""Options of Paimon's Flink connector (Java `FlinkConnectorOptions`): tables that Flink has written carry them."""

from datetime import timedelta

from paimon_spark.options.option import Option, Refusal, Stage
from paimon_spark.options.option import OptionKind as K

KB = 1 << 10
MB = 1 << 20
GB = 1 << 30
_MEANING = "Of Paimon's Flink connector."
_INSTEAD = "It is of Paimon's Flink connector and has no effect here."

_PLAIN: tuple[Option, ...] = tuple(
    Option(key, kind, default, _MEANING, instead=_INSTEAD)
    for key, kind, default in (
        ("changelog-producer.compaction-interval", K.DURATION, timedelta(milliseconds=0)),
        ("changelog.precommit-compact.buffer-size", K.MEMORY, 128 * MB),
        ("changelog.precommit-compact.thread-num", K.INT, None),
        ("commit.custom-listeners", K.STRING, ""),
        ("disable-create-table-in-default-db", K.BOOL, False),
        ("end-input.watermark", K.LONG, None),
        ("filesystem.job-level-settings.enabled", K.BOOL, True),
        ("lineage-use-catalog-key-as-identifier", K.BOOL, False),
        ("lookup.async", K.BOOL, False),
        ("lookup.async-thread-number", K.INT, 16),
        ("lookup.bootstrap-parallelism", K.INT, 4),
        ("lookup.dynamic-partition.refresh-interval", K.DURATION, timedelta(hours=1)),
        ("lookup.dynamic-partition.refresh.async", K.BOOL, False),
        ("lookup.refresh.async", K.BOOL, False),
        ("lookup.refresh.async.pending-snapshot-count", K.INT, 5),
        ("lookup.refresh.full-load-threshold", K.INT, None),
        ("lookup.refresh.time-periods-blacklist", K.STRING, None),
        ("partition.idle-time-to-done", K.DURATION, None),
        ("partition.mark-done.recover-from-state", K.BOOL, True),
        ("partition.time-interval", K.DURATION, None),
        ("scan.bounded", K.BOOL, None),
        ("scan.dedicated-split-generation", K.BOOL, False),
        ("scan.infer-parallelism", K.BOOL, True),
        ("scan.infer-parallelism.max", K.INT, 1024),
        ("scan.max-snapshot.count", K.INT, -1),
        ("scan.parallelism", K.INT, None),
        ("scan.push-down", K.BOOL, None),
        ("scan.split-enumerator.batch-size", K.INT, 10),
        ("scan.watermark.alignment.group", K.STRING, None),
        ("scan.watermark.alignment.max-drift", K.DURATION, None),
        ("scan.watermark.alignment.update-interval", K.DURATION, timedelta(seconds=1)),
        ("scan.watermark.idle-timeout", K.DURATION, None),
        ("sink.clustering.sample-factor", K.INT, 100),
        ("sink.clustering.sort-in-cluster", K.BOOL, True),
        ("sink.committer-cpu", K.FLOAT, 1.0),
        ("sink.committer-memory", K.MEMORY, None),
        ("sink.committer-operator-chaining", K.BOOL, True),
        ("sink.coordinator-commit.enabled", K.BOOL, False),
        ("sink.cross-partition.managed-memory", K.MEMORY, 256 * MB),
        ("sink.key-only-deletes.enabled", K.BOOL, False),
        ("sink.managed.writer-buffer-memory", K.MEMORY, 256 * MB),
        ("sink.operator-uid.suffix", K.STRING, None),
        ("sink.parallelism", K.INT, None),
        ("sink.savepoint.auto-tag", K.BOOL, False),
        ("sink.use-managed-memory-allocator", K.BOOL, False),
        ("sink.writer-coordinator.cache-expire-after-access", K.DURATION, None),
        ("sink.writer-coordinator.cache-memory", K.MEMORY, 2 * GB),
        ("sink.writer-coordinator.cache-soft-values", K.BOOL, True),
        ("sink.writer-coordinator.enabled", K.BOOL, False),
        ("sink.writer-coordinator.page-size", K.MEMORY, 32 * KB),
        ("sink.writer-coordinator.prefetch-manifests", K.BOOL, False),
        ("sink.writer-cpu", K.FLOAT, 1.0),
        ("sink.writer-memory", K.MEMORY, None),
        ("sink.writer-refresh-detectors", K.STRING, None),
        ("source.checkpoint-align.enabled", K.BOOL, False),
        ("source.checkpoint-align.timeout", K.DURATION, timedelta(seconds=30)),
        ("source.operator-uid.suffix", K.STRING, None),
        ("streaming-read-mode", K.STRING, None),
        ("unaware-bucket.compaction.parallelism", K.INT, None),
        ("unaware-bucket.no-shuffle", K.BOOL, False),
    )
)

FLINK: tuple[Option, ...] = (
    *_PLAIN,
    Option(
        "compaction.bucket-distribution-strategy",
        K.ENUM,
        "linear",
        _MEANING,
        choices=("linear", "size-aware-batch"),
        instead=_INSTEAD,
    ),
    Option("lookup.cache", K.ENUM, "auto", _MEANING, choices=("auto", "full", "memory"), instead=_INSTEAD),
    Option(
        "partition.mark-done-action.mode",
        K.ENUM,
        "process-time",
        _MEANING,
        choices=("process-time", "watermark"),
        instead=_INSTEAD,
    ),
    Option(
        "precommit-compact", K.BOOL, False, _MEANING, fallback_keys=("changelog.precommit-compact",), instead=_INSTEAD
    ),
    Option(
        "read.shuffle-bucket-with-partition",
        K.BOOL,
        True,
        _MEANING,
        fallback_keys=("streaming-read.shuffle-bucket-with-partition",),
        instead=_INSTEAD,
    ),
    Option(
        "scan.partitions",
        K.STRING,
        None,
        _MEANING,
        fallback_keys=("lookup.dynamic-partition",),
        refusals=(Refusal(Stage.GIVEN, "Give the partitions as a condition: WHERE, or the option 'filter'."),),
        instead=_INSTEAD,
    ),
    Option(
        "scan.remove-normalize", K.BOOL, False, _MEANING, fallback_keys=("log.scan.remove-normalize",), instead=_INSTEAD
    ),
    Option("scan.split-enumerator.mode", K.ENUM, "fair", _MEANING, choices=("fair", "preemptive"), instead=_INSTEAD),
    Option(
        "scan.watermark.emit.strategy",
        K.ENUM,
        "on-event",
        _MEANING,
        choices=("on-periodic", "on-event"),
        instead=_INSTEAD,
    ),
)
