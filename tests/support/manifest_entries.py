"""What a list of manifest entries leaves, entry by entry: a model of the columns that the package works on."""

from __future__ import annotations

from collections.abc import Iterable

from paimon_spark.errors import PaimonError
from paimon_spark.spec.manifest import FileIdentifier, FileKind, ManifestEntry


def merge_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Cancel ADDs against later DELETEs of the same file, keeping the order (Java: ``FileEntry.mergeEntries``).

    A DELETE without its ADD is kept.

    Raises:
        PaimonError: a file is added that is already there.
    """
    merged: dict[FileIdentifier, ManifestEntry] = {}
    for entry in entries:
        identifier = entry.identifier()
        known = merged.get(identifier)
        if entry.kind == FileKind.ADD:
            if known is not None:
                raise PaimonError(
                    f"Trying to add file {entry.file.file_name} (bucket {entry.bucket}, level {entry.file.level}) "
                    f"which is already added."
                )
            merged[identifier] = entry
        elif known is not None and known.kind == FileKind.ADD:
            del merged[identifier]
        else:
            merged[identifier] = entry
    return list(merged.values())
