"""Options of manifests: `manifest…`."""

from paimon_spark.options.option import Option
from paimon_spark.options.option import OptionKind as K

MB = 1 << 20
_NOT_SORTED = "Manifests keep the order of their commits."

CORE_MANIFEST: tuple[Option, ...] = (
    Option("manifest.compression", K.STRING, "zstd", "Compression of manifests.", honoured=True),
    Option("manifest.target-file-size", K.MEMORY, 8 * MB, "Size at which a manifest is closed.", honoured=True),
    Option(
        "manifest.full-compaction-threshold-size",
        K.MEMORY,
        16 * MB,
        "Size of changed manifests that starts a full rewrite of them.",
        honoured=True,
    ),
    Option(
        "manifest.merge-min-count", K.INT, 30, "Small manifests that must gather before they are merged.", honoured=True
    ),
    Option(
        "manifest-sort.enabled",
        K.BOOL,
        False,
        "Whether manifests are sorted by partition at commit.",
        instead=_NOT_SORTED,
    ),
    Option(
        "manifest-sort.partition-field",
        K.STRING,
        None,
        "Partition column that manifests are sorted by.",
        instead=_NOT_SORTED,
    ),
    Option(
        "manifest-sort.max-rewrite-size",
        K.MEMORY,
        256 * MB,
        "Manifests rewritten in one sorting pass at most.",
        instead=_NOT_SORTED,
    ),
    Option(
        "manifest.merge-optimize.enabled",
        K.BOOL,
        True,
        "Whether Java merges manifests block by block.",
        instead="Manifests are merged in the same way.",
    ),
    Option(
        "manifest.delete-file-drop-stats",
        K.BOOL,
        False,
        "Whether DELETE entries of manifests leave out statistics.",
        honoured=True,
    ),
)
