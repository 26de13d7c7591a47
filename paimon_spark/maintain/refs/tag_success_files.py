"""Files that tell other systems that a tag is there: option `tag.create-success-file`.

Equals Java's ``SuccessFileTagCallback``: ``tag/tag-success-file/<tag>_SUCCESS`` comes with a new tag and goes when the
tag is deleted or expires; it stays as it is when the tag is replaced, renamed, or gone by a rollback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_spark.spec.success_file import renewed_success_file

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


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
    path = success_file_path(table, tag)
    old = table.file_io.read_bytes(path) if table.file_io.exists(path) else None
    table.file_io.write_bytes(path, renewed_success_file(old, path=path), overwrite=True)


def notify_deletion(table: FileStoreTable, tag: str) -> None:
    """Delete the success file of a tag that is gone, where the table's option asks for such files."""
    if table.options.value("tag.create-success-file"):
        table.file_io.delete_quietly(success_file_path(table, tag))
