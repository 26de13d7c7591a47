"""Options of commits, snapshots and what holds them: `commit.…`, `snapshot.…`, `changelog.…`, `tag.…`."""

from datetime import timedelta

from paimon_spark.options.option import Option, Refusal, Stage
from paimon_spark.options.option import OptionKind as K

_JAVA_CLASSES = (
    "It names Java classes, which cannot be run here. Remove the option, or give it empty with the statement."
)

CORE_SNAPSHOT: tuple[Option, ...] = (
    Option("snapshot.num-retained.min", K.INT, 10, "Snapshots kept at least.", honoured=True),
    Option("snapshot.num-retained.max", K.INT, 2**31 - 1, "Snapshots kept at most.", honoured=True),
    Option("snapshot.time-retained", K.DURATION, timedelta(hours=1), "How long snapshots are kept.", honoured=True),
    Option(
        "changelog.num-retained.min", K.INT, None, "Changelogs kept at least; as for snapshots without.", honoured=True
    ),
    Option(
        "changelog.num-retained.max", K.INT, None, "Changelogs kept at most; as for snapshots without.", honoured=True
    ),
    Option(
        "changelog.time-retained",
        K.DURATION,
        None,
        "How long changelogs are kept; as for snapshots without.",
        honoured=True,
    ),
    Option(
        "snapshot.expire.execution-mode",
        K.ENUM,
        "sync",
        "Whether a commit waits for the expiry of snapshots.",
        choices=("sync", "async"),
        honoured=True,
    ),
    Option("snapshot.expire.limit", K.INT, 50, "Snapshots expired at once at most.", honoured=True),
    Option(
        "snapshot.clean-empty-directories",
        K.BOOL,
        False,
        "Whether expiry removes directories left empty.",
        fallback_keys=("snapshot.expire.clean-empty-directories",),
        honoured=True,
    ),
    Option(
        "commit.force-compact",
        K.BOOL,
        False,
        "Whether every commit compacts first.",
        instead="A batch write always waits for the compaction that it makes due.",
    ),
    Option("commit.timeout", K.DURATION, None, "How long a commit is tried again.", honoured=True),
    Option("commit.max-retries", K.INT, 10, "How often a commit is tried again.", honoured=True),
    Option(
        "commit.min-retry-wait",
        K.DURATION,
        timedelta(milliseconds=10),
        "First wait before a commit is tried again.",
        honoured=True,
    ),
    Option(
        "commit.max-retry-wait",
        K.DURATION,
        timedelta(seconds=10),
        "Longest wait before a commit is tried again.",
        honoured=True,
    ),
    Option(
        "commit.callbacks",
        K.STRING,
        "",
        "Java classes called after a commit.",
        refusals=(
            Refusal(
                Stage.COMMIT,
                _JAVA_CLASSES,
            ),
        ),
    ),
    Option(
        "commit.callback.<class>.param",
        K.STRING,
        None,
        "Parameter of a commit callback.",
        instead="Commits with 'commit.callbacks' are refused.",
    ),
    Option(
        "tag.callbacks",
        K.STRING,
        "",
        "Java classes called after a tag is made.",
        refusals=(
            Refusal(
                Stage.COMMIT,
                _JAVA_CLASSES,
            ),
            Refusal(Stage.TAG, _JAVA_CLASSES),
        ),
    ),
    Option(
        "tag.callback.<class>.param",
        K.STRING,
        None,
        "Parameter of a tag callback.",
        instead="Commits with 'tag.callbacks' are refused.",
    ),
    Option(
        "tag.automatic-creation",
        K.ENUM,
        "none",
        "When tags are made automatically.",
        choices=("none", "process-time", "watermark", "batch"),
        honoured=True,
    ),
    Option("tag.create-success-file", K.BOOL, False, "Whether a new tag gets a success file.", honoured=True),
    Option(
        "tag.creation-period",
        K.ENUM,
        "daily",
        "How often automatic tags are made.",
        choices=("daily", "hourly", "two-hours"),
        honoured=True,
    ),
    Option(
        "tag.creation-delay",
        K.DURATION,
        timedelta(milliseconds=0),
        "How long after a period its tag is made.",
        honoured=True,
    ),
    Option(
        "tag.period-formatter",
        K.ENUM,
        "with_dashes",
        "How the names of automatic tags are written.",
        choices=("with_dashes", "without_dashes", "without_dashes_and_spaces"),
        honoured=True,
    ),
    Option(
        "tag.creation-period-duration",
        K.DURATION,
        None,
        "Length of a tag's period, instead of tag.creation-period.",
        honoured=True,
    ),
    Option("tag.num-retained-max", K.INT, None, "Automatic tags kept at most.", honoured=True),
    Option(
        "tag.default-time-retained",
        K.DURATION,
        None,
        "How long new tags live that are made by the table itself or by PaimonTable; by CALL for ever, unless it says.",
        honoured=True,
    ),
    Option("tag.time-expire-enabled", K.BOOL, True, "Whether tags expire when their time is over.", honoured=True),
    Option("tag.automatic-completion", K.BOOL, False, "Whether missing automatic tags are made later.", honoured=True),
    Option("tag.batch.customized-name", K.STRING, None, "Name of the tag a batch write makes.", honoured=True),
    Option(
        "snapshot.watermark-idle-timeout",
        K.DURATION,
        None,
        "Idle time after which Flink's streaming writer commits nothing, so that tags are made; without effect here.",
        instead="It is an option of Flink's writer: a stream here commits each micro-batch that has rows.",
    ),
    Option("sink.watermark-time-zone", K.STRING, "UTC", "Time zone of watermarks for automatic tags.", honoured=True),
    Option("sink.process-time-zone", K.STRING, None, "Time zone of the clock for automatic tags.", honoured=True),
    Option(
        "commit.force-create-snapshot",
        K.BOOL,
        False,
        "Whether a commit without changes makes a snapshot.",
        honoured=True,
    ),
    Option("commit.user-prefix", K.STRING, None, "Start of the commit user's name.", honoured=True),
    Option(
        "file-operation.thread-num",
        K.INT,
        None,
        "File operations at once.",
        fallback_keys=("delete-file.thread-num",),
        honoured=True,
    ),
    Option(
        "commit.strict-mode.last-safe-snapshot",
        K.LONG,
        None,
        "Fail a commit on conflicting snapshots of others after this one.",
        honoured=True,
    ),
    Option(
        "snapshot.ignore-empty-commit",
        K.BOOL,
        None,
        "Whether a commit without changes makes no snapshot.",
        honoured=True,
    ),
    Option(
        "commit.discard-duplicate-files",
        K.BOOL,
        False,
        "Whether files already committed are passed over.",
        honoured=True,
    ),
)
