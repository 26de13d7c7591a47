"""Files that tell other systems that a tag is there: option `tag.create-success-file`.

Equals Java's ``SuccessFileTagCallback``: ``tag/tag-success-file/<tag>_SUCCESS`` comes with a new tag and goes when the
tag is deleted or expires; it stays as it is when the tag is replaced, renamed, or gone by a rollback.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from paimon_spark.errors import CorruptTableError
from paimon_spark.spec.json_text import pretty_json

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

_CREATION, _MODIFICATION = "creationTime", "modificationTime"


def success_file_path(table: FileStoreTable, tag: str) -> str:
    """Return where the success file of a tag is.

    Raises:
        PaimonError: the name cannot be part of a file name.
    """
    name = table.paths.tag_path(tag).rpartition("/")[2].removeprefix("tag-")
    return f"{table.paths.tag_dir}/tag-success-file/{name}_SUCCESS"


def notify_creation(table: FileStoreTable, tag: str) -> None:
    """Write the success file of a new tag, where the table's option asks for it; one that is there keeps its age.

    Raises:
        CorruptTableError: the existing file is not a success file.
    """
    if not table.options.value("tag.create-success-file"):
        return
    path, now = success_file_path(table, tag), int(time.time() * 1000)
    created = now
    if table.file_io.exists(path):
        try:
            created = int(json.loads(table.file_io.read_bytes(path))[_CREATION])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptTableError(f"The success file {path} of tag '{tag}' cannot be read.", path=path) from error
    text = pretty_json({_CREATION: created, _MODIFICATION: now})
    table.file_io.write_bytes(path, text.encode(), overwrite=True)


def notify_deletion(table: FileStoreTable, tag: str) -> None:
    """Delete the success file of a tag that is gone, where the table's option asks for such files."""
    if table.options.value("tag.create-success-file"):
        table.file_io.delete_quietly(success_file_path(table, tag))
