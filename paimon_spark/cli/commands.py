"""The commands: each opens the table at a path and calls what the methods of `PaimonTable` call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
import pyarrow.compute as pc

from paimon_spark.cli.output import FORMS, JSON, TABLE, Output, tracked
from paimon_spark.display.texts import bytes_text, counted
from paimon_spark.errors import PaimonError
from paimon_spark.options import find_option, unknown_option_error
from paimon_spark.table.filesystem_catalog import DEFAULT_DATABASE
from paimon_spark.table.metastore_catalog import open_catalog
from paimon_spark.table.paths import parse_table_path, system_table_in
from paimon_spark.table.table import load_table, table_exists
from paimon_spark.table.time_travel import travel

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable

Command = Callable[..., None]
_PROGRAM = "paimon-spark"
_TIMES = click.DateTime(["%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"])
_FILE_COLUMNS = {
    "partition": "partition",
    "bucket": "bucket",
    "level": "level",
    "record_count": "records",
    "file_size_in_bytes": "bytes",
    "creation_time": "created",
    "file_path": "file",
}
_SNAPSHOT_COLUMNS = {
    "snapshot_id": "id",
    "commit_time": "time",
    "commit_kind": "kind",
    "operation": "operation",
    "delta_record_count": "added",
    "total_record_count": "records",
    "commit_user": "user",
}
_TAG_COLUMNS = {
    "tag_name": "tag",
    "snapshot_id": "snapshot",
    "commit_time": "time",
    "record_count": "records",
    "time_retained": "retained",
}


def run(arguments: Sequence[str]) -> int:
    """Run a command; return the exit code. Errors of tables and files are one line on standard error."""
    try:
        commands.main(list(arguments), prog_name=_PROGRAM, standalone_mode=False)
    except click.exceptions.Exit as end:  # --help
        return end.exit_code
    except click.Abort:
        print("Aborted.", file=sys.stderr)
        return 1
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (PaimonError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="paimon-spark", prog_name=_PROGRAM)
def commands() -> None:
    """Look at Apache Paimon tables and look after them, without Spark.

    PATH is the directory of a table, or of one of its branches, <table>$branch_<branch>; with --warehouse the name of a
    table, <database>.<table>.
    """


def _of_table(command: Command) -> Command:
    """Give a command the arguments that all of them have, the table and the output."""

    def with_table(path: str, option: tuple[str, ...], warehouse: str | None, **given: Any) -> None:
        output = _output(given)
        command(_open(path, option, warehouse), output, **given)

    with_table.__name__, with_table.__doc__ = command.__name__, command.__doc__
    with_table.__dict__.update(command.__dict__)  # options of click that are there already
    for decorate in _SHARED:
        with_table = decorate(with_table)
    return with_table


_SHARED = (
    click.option("--output", "file", metavar="FILE", help="Write CSV, Parquet or Arrow to this file."),
    click.option("--format", "form", type=click.Choice(FORMS), default=TABLE, help="What rows are written as."),
    click.option("--json", "as_json", is_flag=True, help="Write JSON, one object a line: --format json."),
    click.option("-o", "--option", multiple=True, metavar="KEY=VALUE", help="An option of the table or the store."),
    click.option("-w", "--warehouse", metavar="DIRECTORY", help="Where PATH is a name: database.table."),
    click.argument("path"),
)
"""The arguments that commands have."""


def _output(given: dict[str, Any]) -> Output:
    """Take what says how to print out of the arguments of a command."""
    form, as_json, file = given.pop("form"), given.pop("as_json"), given.pop("file")
    if as_json and form not in (TABLE, JSON):
        raise click.UsageError("--json goes with no other --format.")
    form = JSON if as_json else form
    if file is not None and form in (TABLE, JSON):
        raise click.UsageError("--output needs --format csv, parquet or arrow.")
    return Output(form, file)


def _open(path: str, given: Sequence[str], warehouse: str | None = None) -> FileStoreTable:
    options = _options(given)
    path, options = _location(path, options, warehouse)
    name = parse_table_path(path)
    if name.system_table is not None:
        raise click.BadParameter(
            f"'{path}' names the system table ${name.system_table}: only `read` takes one.", param_hint="PATH"
        )
    return load_table(path, options=options)


def _location(path: str, options: dict[str, str], warehouse: str | None) -> tuple[str, dict[str, str]]:
    """Return the directory of a table that is named, and the options that reach it."""
    if warehouse is None or "/" in path:
        return path, options
    parts = path.split(".")
    if len(parts) != 2 or not all(parts):
        raise click.BadParameter(f"'{path}' is no name of a table: write database.table.", param_hint="PATH")
    catalog = open_catalog(warehouse, options)
    return catalog.table_path(*parts), {**catalog.options, **options}


def _options(given: Sequence[str]) -> dict[str, str]:
    options = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"'{text}' is not KEY=VALUE.", param_hint="--option")
        if find_option(key.strip()) is None:
            raise unknown_option_error(key.strip())
        options[key.strip()] = value
    return options


def _plain(command: Command) -> Command:
    for decorate in _SHARED:
        command = decorate(command)
    return command


@commands.command()
@_plain
def info(path: str, option: tuple[str, ...], warehouse: str | None, **given: Any) -> None:
    """Show what a table is: kind, keys, columns, size, newest snapshots, tags, branches.

    Of a warehouse or a database it lists the tables: info /wh, info shop --warehouse /wh.
    """
    from paimon_spark.cli.reading import show_info, show_warehouse

    output = _output(given)
    options = _options(option)
    if warehouse is not None and "." not in path and "/" not in path:
        show_warehouse(open_catalog(warehouse, options), output, path)
        return
    location, reaching = _location(path, options, warehouse)
    if system_table_in(location) is None and not table_exists(location, options=reaching):
        catalog = open_catalog(location.rstrip("/"), options)
        if any(name != DEFAULT_DATABASE or catalog.tables(name) for name in catalog.databases()):
            show_warehouse(catalog, output)
            return
    show_info(_open(path, option, warehouse), output)


@commands.command()
@_of_table
@click.option("--version", help="A tag or a snapshot's id; the latest schema when not given.")
def schema(table: FileStoreTable, output: Output, version: str | None) -> None:
    """List the columns: type, nullability, key, default, comment."""
    from paimon_spark.cli.reading import columns_of

    seen = (table if version is None else travel(_at(table, version))[0]).schema
    output.rows(columns_of(seen), title=f"Schema {seen.id} of {table.path}")


@commands.command()
@_of_table
def branches(table: FileStoreTable, output: Output) -> None:
    """List the branches."""
    from paimon_spark.table.system.registry import system_table

    found = system_table("branches", of=table.path).read(table)
    output.rows(found, title=f"{found.num_rows:,} {'branch' if found.num_rows == 1 else 'branches'}")


@commands.command()
@_of_table
@click.option("--limit", default=20, show_default=True, help="Show so many, the newest; 0 shows all.")
def snapshots(table: FileStoreTable, output: Output, limit: int) -> None:
    """List the snapshots, newest first."""
    from paimon_spark.table.system.registry import system_table

    ids = table.snapshots.ids()
    found = system_table("snapshots", of=table.path).read(table)
    rows = found.sort_by([("snapshot_id", "descending")]).slice(0, limit or None)
    merged = {"total_record_count": "records before merging"} if table.schema.kind.is_keyed else {}
    output.rows(rows, shown={**_SNAPSHOT_COLUMNS, **merged}, title=counted(len(ids), "snapshot"))


@commands.command()
@_of_table
@click.option("--version", help="A tag or a snapshot's id; the latest snapshot when not given.")
@click.option("--limit", default=50, show_default=True, help="Show so many; 0 shows all.")
def files(table: FileStoreTable, output: Output, version: str | None, limit: int) -> None:
    """List the data files of a snapshot."""
    from paimon_spark.table.system.registry import system_table

    found = system_table("files", of=table.path).read(_at(table, version))
    rows = found.slice(0, limit or None)
    if output.form == TABLE:  # paths below the table are short enough for a line
        at = rows.schema.get_field_index("file_path")
        below = pc.replace_substring(rows.column(at), f"{table.path}/", "", max_replacements=1)
        rows = rows.set_column(at, "file_path", below)
    output.rows(rows, shown=_FILE_COLUMNS, title=counted(found.num_rows, "file"))


@commands.command()
@_of_table
def tags(table: FileStoreTable, output: Output) -> None:
    """List the tags."""
    from paimon_spark.table.system.registry import system_table

    found = system_table("tags", of=table.path).read(table)
    output.rows(found, shown=_TAG_COLUMNS, title=counted(found.num_rows, "tag"))


@commands.command()
@_of_table
@click.option("--snapshot", type=int, help="The snapshot's id; the latest one when not given.")
@click.option("--retain", metavar="DURATION", help="How long the tag lives, such as '7 d'; for ever when not given.")
@click.option("--replace", is_flag=True, help="Point an existing tag to the snapshot.")
@click.option("--delete", is_flag=True, help="Delete the tag.")
@click.argument("name")
def tag(
    table: FileStoreTable,
    output: Output,
    name: str,
    snapshot: int | None,
    retain: str | None,
    replace: bool,
    delete: bool,
) -> None:
    """Give a snapshot a name, which keeps it from expiring."""
    from paimon_spark.maintain.refs.tags import create_tag, delete_tag, replace_tag
    from paimon_spark.options.option import parse_duration

    if delete and (replace or retain or snapshot is not None):
        raise click.UsageError("--delete goes with no other option.")
    time_retained = None if retain is None else parse_duration(retain)
    if delete:
        delete_tag(table, name)
        output.done(f"Tag '{name}' is deleted.", tag=name, deleted=True)
        return
    if replace:
        replace_tag(table, name, snapshot_id=snapshot, time_retained=time_retained)
    else:
        create_tag(table, name, snapshot_id=snapshot, time_retained=time_retained)
    tagged = table.tags.get(name).snapshot.id
    output.done(f"Tag '{name}' names snapshot {tagged}.", tag=name, snapshot_id=tagged)


@commands.command()
@_of_table
@click.option("--snapshot", type=int, help="The id of the snapshot to go back to.")
@click.option("--tag", "tag_name", help="The tag to go back to.")
@click.option("--time", type=_TIMES, help="Go back to the latest snapshot of this local time or before.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def rollback(
    table: FileStoreTable,
    output: Output,
    snapshot: int | None,
    tag_name: str | None,
    time: datetime | None,
    yes: bool,
) -> None:
    """Go back to a snapshot. Later snapshots are deleted."""
    from paimon_spark.maintain.refs.rollback import rollback_to_snapshot, rollback_to_tag, rollback_to_timestamp

    if sum(target is not None for target in (snapshot, tag_name, time)) != 1:
        raise click.UsageError("Name one of --snapshot, --tag and --time.")
    if not yes:
        click.confirm(f"Go back? Snapshots of {table.path} after that one are deleted", abort=True, err=True)
    if snapshot is not None:
        done = rollback_to_snapshot(table, snapshot)
    elif tag_name is not None:
        done = rollback_to_tag(table, tag_name)
    else:
        assert time is not None
        done = rollback_to_timestamp(table, int(time.timestamp() * 1000))
    output.done(
        f"Back from snapshot {done.previous_snapshot_id} to {done.current_snapshot_id}.",
        previous_snapshot_id=done.previous_snapshot_id,
        current_snapshot_id=done.current_snapshot_id,
    )


def _reads(command: Command) -> Command:
    """Give a command the options that say which rows are read."""
    for decorate in (
        click.option("--version", help="A tag or a snapshot's id; the latest snapshot when not given."),
        click.option("--columns", help="Names between commas; all when not given."),
        click.option("--where", metavar="CONDITION", help="A condition in SQL, such as \"id = 7 AND dt > '2024'\"."),
    ):
        command = decorate(command)
    return command


@commands.command()
@click.option("--limit", default=20, show_default=True, help="Read so many rows; 0 reads all.")
@_reads
@_plain
def read(path: str, option: tuple[str, ...], warehouse: str | None, limit: int, **which: Any) -> None:
    """Read rows of a table, or of a system table: <table>$audit_log."""
    from paimon_spark.cli.reading import named_rows

    output, version = _output(which), which.pop("version")
    root, dollar, system = path.rpartition("$")
    named = dollar and system_table_in(f"/{path}") is not None
    table = _at(_open(root if named else path, option, warehouse), version)
    found, batches = named_rows(table, system if named else None, limit=limit or None, **which)
    output.batches(found, batches)


@commands.command()
@_of_table
@click.option("--columns", help="Names between commas; all when not given.")
@click.option("--where", metavar="CONDITION", help="A condition in SQL.")
@click.argument("first")
@click.argument("second")
def diff(
    table: FileStoreTable, output: Output, first: str, second: str, columns: str | None, where: str | None
) -> None:
    """Show the rows that only one of two versions has: - of the first, + of the second.

    FIRST and SECOND are tags or ids of snapshots.
    """
    from paimon_spark.cli.reading import rows_that_differ

    output.batches(*rows_that_differ(table, (first, second), columns=columns, where=where))


@commands.command()
@_of_table
@_reads
def explain(table: FileStoreTable, output: Output, version: str | None, **which: str | None) -> None:
    """Show what a read opens: snapshot, files, splits, the filter that is left for rows."""
    from paimon_spark.cli.reading import show_plan

    show_plan(_at(table, version), output, **which)


@commands.command()
@_of_table
@click.option("--minor", is_flag=True, help="Only what a writer would compact by itself.")
@click.option("--partitions", metavar="SPECS", help="Such as 'dt=2024-01-01,hh=0;dt=2024-01-02'; all when not given.")
@click.option("--where", metavar="CONDITION", help="A condition over partition columns.")
def compact(table: FileStoreTable, output: Output, minor: bool, partitions: str | None, where: str | None) -> None:
    """Compact a table in this process, one rewrite after the other."""
    from paimon_spark.maintain.compact.compaction import compact_with_retries, rewrite_here
    from paimon_spark.maintain.compact.scope import parse_partitions, scope_of

    specs = None if partitions is None else parse_partitions(partitions)
    scope = scope_of(table, partitions=specs, where=where)
    done = compact_with_retries(
        table,
        scope,
        full=not minor,
        execute=lambda some, rewrites: tracked(rewrite_here(some, rewrites), len(rewrites), "Compacting"),
    )
    output.done("Nothing to compact." if done is None else f"Snapshot {done} is compacted.", snapshot_id=done)


@commands.command()
@_of_table
@click.option("--retain-max", type=int, help="Most snapshots that stay.")
@click.option("--retain-min", type=int, help="Fewest snapshots that stay.")
@click.option("--older-than", type=_TIMES, help="Only snapshots from before this local time go.")
@click.option("--max-deletes", type=int, help="Most snapshots that go at once.")
def expire(table: FileStoreTable, output: Output, **given: Any) -> None:
    """Expire old snapshots with the files that nothing else needs; options of the table say which when not given."""
    from paimon_spark.maintain.expire.snapshots import Retention, expire_snapshots

    gone = expire_snapshots(table, Retention.of_snapshots(table.options).with_arguments(**given))
    output.done(f"{counted(gone, 'snapshot')} expired.", expired=gone)


@commands.command()
@_of_table
@click.option("--older-than", type=_TIMES, help="Only files from before this local time; a day ago when not given.")
@click.option("--delete", is_flag=True, help="Delete them; without it they are only counted.")
def orphans(table: FileStoreTable, output: Output, older_than: datetime | None, delete: bool) -> None:
    """Count or delete files of the table that no snapshot, tag or branch names."""
    from paimon_spark.maintain.files.orphan_files import remove_orphan_files

    found = remove_orphan_files(table, older_than=older_than, dry_run=not delete)
    words = "deleted" if delete else "can be deleted (--delete)"
    output.done(
        f"{counted(found.file_count, 'orphan file')} of {bytes_text(found.total_bytes)} {words}.",
        file_count=found.file_count,
        total_bytes=found.total_bytes,
        deleted=delete,
    )


def _at(table: FileStoreTable, version: str | None) -> FileStoreTable:
    return table if version is None else table.with_options({"scan.version": version})
