"""`PaimonTable`: everything about one table as methods, on classic and Connect sessions alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql.types import DataType, StructType

from paimon_spark.commit.row_counts import RowCounts, counting
from paimon_spark.errors import CommitError, OptionError, SchemaError
from paimon_spark.options import reaching_options
from paimon_spark.options.registry import column_names
from paimon_spark.spark.columns.types import from_spark_struct, spark_arrow_schema
from paimon_spark.spark.jobs.copies import directory_source, migrate, table_source
from paimon_spark.spark.jobs.shuffled_write import is_shuffled, write_as_is, write_shuffled
from paimon_spark.spark.jobs.write_tasks import RowsToWrite
from paimon_spark.spark.register import register
from paimon_spark.spark.session.session_settings import activate, check_session, is_connect, settings_option
from paimon_spark.spark.session.typed_errors import class_named
from paimon_spark.spark.source.source_options import (
    REPORT_TO,
    read_request,
    refuse_system_table,
    table_path,
    write_request,
)
from paimon_spark.spark.source.write_target import check_frame, overwrite_of, target_table, with_shuffle_columns
from paimon_spark.spark.sql.warehouses import named_table, unknown_table
from paimon_spark.spark.table.definition import Definition, Display
from paimon_spark.spark.table.familiar_words import FamiliarWords
from paimon_spark.spark.table.frames import Changes, SystemTables
from paimon_spark.spark.table.handle import TableHandle, method_of, option_keys, property_of, user_methods
from paimon_spark.spark.table.rows import Merges, Rows, replacing_rows
from paimon_spark.spark.table.tags import Branches, Tags
from paimon_spark.spark.table.upkeep import Compaction, Expiry, Repairs
from paimon_spark.storage.store_options import QuietOptions
from paimon_spark.table.foreign_folders import store_of_new_table
from paimon_spark.table.new_schema import new_table_schema
from paimon_spark.table.paths import is_path_name, parse_table_path
from paimon_spark.table.table import create_table, table_exists
from paimon_spark.write.rows import map_columns

if TYPE_CHECKING:
    from typing import Unpack

    from pyspark.sql import DataFrame, SparkSession

    from paimon_spark.options.keyword_types import KeywordOptions
    from paimon_spark.table.table import FileStoreTable


@user_methods
class PaimonTable:
    """One table, by its path. Nothing of the table is kept: every call sees it as it is then.

    Every option of Paimon can be given as a keyword, dots and dashes as underscores (``scan_tag_name="t"``), or by its
    own key (``**{"scan.tag-name": "t"}``).
    """

    def __init__(self, spark: SparkSession, path: str, options: Mapping[str, str]) -> None:
        self._table = TableHandle(spark, path, QuietOptions(options))

    @classmethod
    def for_path(cls, spark: SparkSession, path: str, **options: Any) -> PaimonTable:
        """The table at `path`.

        Args:
            spark: a classic or a Connect session.
            path: the table directory, or ``<table>$branch_<branch>``.
            options: how to reach the store (``s3.endpoint``, ...), for every later call.

        Raises:
            TableNotFoundError: there is no table.
        """
        check_session(spark, "PaimonTable.for_path(spark, path)")
        register(spark)
        request = read_request({"path": path, **option_keys(options)})
        table = cls(spark, request.path, request.options)
        refuse_system_table(table.path, request.name.system_table, "opened as a PaimonTable")
        table._table.load()
        return table

    @classmethod
    def create(
        cls,
        spark: SparkSession,
        path: str,
        schema: StructType | str,
        *,
        primary_keys: Sequence[str] | str = (),
        partition_keys: Sequence[str] | str = (),
        primary_key: Sequence[str] | str = (),
        partition_by: Sequence[str] | str = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
        ignore_if_exists: bool = False,
    ) -> PaimonTable:
        """Create a table without rows, and give it.

        Args:
            spark: a classic or a Connect session.
            path: the table directory.
            schema: columns as a Spark schema or its text, such as ``"id long not null, name string"``.
            primary_keys: names of the key columns, in a list or between commas; none makes an append table.
            partition_keys: names of the partition columns, likewise.
            primary_key: another name of ``primary_keys``.
            partition_by: another name of ``partition_keys``.
            options: table options, such as ``{"bucket": "4"}``.
            comment: the table's comment.
            ignore_if_exists: give the table that is there, whatever its columns, instead of failing.

        Raises:
            SchemaError: there is a table, the directory is something else, or no table can be made of these columns
                and options.
        """
        check_session(spark, "PaimonTable.create(spark, path, columns)")
        if isinstance(schema, str) and is_path_name(schema):
            raise OptionError(f"PaimonTable.create takes the path before the columns, and '{schema}' is a path")
        given = dict(write_request({"path": path, **option_keys(options or {})}, overwrite=False).options)
        reaching = reaching_options(given)
        name = parse_table_path(table_path({"path": path}))
        if ignore_if_exists and table_exists(name.root, options=given):
            return cls.for_path(spark, path, **reaching)
        fields = from_spark_struct(_parsed_schema(spark, schema))
        new_schema = new_table_schema(
            fields,
            {key: text for key, text in given.items() if key not in reaching},
            primary_keys=column_names(primary_keys, primary_key),
            partition_keys=column_names(partition_keys, partition_by),
            comment=comment,
        )
        create_table(name.root, new_schema, options=reaching, file_io=store_of_new_table(name.root, reaching))
        return cls.for_path(spark, path, **reaching)

    @classmethod
    def migrate(
        cls,
        spark: SparkSession,
        source: str,
        path: str,
        *,
        source_type: str = "parquet",
        options: Mapping[str, str] | None = None,
        read_options: Mapping[str, str] | None = None,
        delete_origin: bool = True,
        parallelism: int | None = None,
    ) -> PaimonTable:
        """Make a table of files, and give it. SQL: ``CALL sys.migrate_table``.

        Parquet and ORC files become the table's as they are where that is possible; else Spark writes the rows. When it
        fails, the source is as it was.

        Args:
            spark: a classic or a Connect session.
            source: a directory, partitioned by directories like ``dt=2024-01-31`` or not; or a table of Spark's own
                catalog, ``db.table``, with the type ``hive``.
            path: the directory of the new table.
            source_type: ``parquet``, ``orc``, ``csv``, ``json`` or ``hive``.
            options: of the new table and its store.
            read_options: of Spark's reader, such as ``{"header": "true"}``.
            delete_origin: let the source go afterwards.
            parallelism: how many files come at once.

        Raises:
            SchemaError: there is a table at ``path``, or Paimon has no such columns.
            DataError: the directory is not as Hive and Spark lay them out, or a file has columns that others lack.
        """
        register(spark)
        given = {key: str(value) for key, value in (options or {}).items()}
        store = reaching_options(given)
        found = (
            table_source(spark, source, store)
            if source_type == "hive"
            else directory_source(spark, source_type, source, store, read_options or {})
        )
        migrate(spark, found, path, store, given, delete_origin=delete_origin, parallelism=parallelism)
        return cls.for_path(spark, path, **store)

    @classmethod
    def for_name(cls, spark: SparkSession, name: str, **options: Any) -> PaimonTable:
        """The table of a name in a catalog of the session.

        Args:
            spark: a classic or a Connect session, for which `register_catalog` or `sql` was called.
            name: ``<catalog>.<database>.<table>``, or less where the session's current catalog and database count;
                `` `t$branch_b` `` is a branch.
            options: as of `for_path`.

        Raises:
            TableNotFoundError: there is no such table, or no such catalog.
        """
        check_session(spark, "PaimonTable.for_name(spark, name)")
        found = named_table(spark, name)
        if found is None or not found.exists():
            raise unknown_table(spark, name)
        return cls.for_path(spark, found.path, **{**found.options, **options})

    @staticmethod
    def exists(
        path: str | SparkSession, name: str | None = None, *, spark: SparkSession | None = None, **options: Any
    ) -> bool:
        """Whether there is a table at a path; or of a name, where a session is given, as in ``exists(spark, name)``.

        Args:
            path: the table directory; with `spark` a name as of `for_name`, too. Or the session, before the name.
            name: the path or name, behind a session.
            spark: the session whose catalogs are meant.
            options: how to reach the store of a path.
        """
        if name is not None:
            check_session(path, "PaimonTable.exists(spark, name)")
            session: Any = path
            return PaimonTable.exists(name, spark=session, **options)
        path = str(path)
        if spark is not None and not is_path_name(path):
            found = named_table(spark, path)
            return found is not None and found.exists()
        return table_exists(table_path({"path": path}), options=option_keys(options))

    @property
    def path(self) -> str:
        """The table directory (with ``$branch_...`` where one was given)."""
        return self._table.path

    def to_df(self, **options: Unpack[KeywordOptions]) -> DataFrame:
        """The rows of the table, of its latest snapshot or of the one that the options name.

        Args:
            options: read options such as ``scan_tag_name="t"``, ``scan_snapshot_id=3``, ``columns=["a", "b"]`` (or
                ``"a, b"``), ``filter="dt = '2024-01-31'"``.
        """
        return self._table.to_df(**options)

    def append(self, df: DataFrame, **options: Unpack[KeywordOptions]) -> RowCounts:
        """Write rows; in a primary-key table they are merged with what is there.

        Rows of tables with buckets are shuffled first, so that each bucket has one writer.

        Args:
            df: the rows; columns are matched by name.
            options: dynamic options of the write.

        Returns:
            How many rows were written, as ``num_affected_rows`` and ``num_inserted_rows``: before they are merged with
            others.
        """
        return save_rows(self._table, df, "append", options)

    def upsert(self, source: DataFrame, on: str | Sequence[str] | None = None) -> RowCounts:
        """Update the rows that are there, and insert the others: rows are the same where `on` is equal.

        In a table with a primary key that is what every write does, by its merge engine. In others a row of `source`
        takes the location of the row with the same values in `on`.

        Args:
            source: the rows, with all columns of a table without primary key.
            on: the columns that tell rows apart, in a list or between commas; the primary key, if there is one.

        Returns:
            How many rows were written, as ``num_affected_rows``. With a primary key nobody looks which keys were there:
            `num_updated_rows` and `num_inserted_rows` are None.

        Raises:
            OptionError: a table without primary key needs `on`; of another one it is the primary key.
            DataError: several rows of `source` would take the place of one row; nothing was committed.
            PaimonError: as of every write.
        """
        names = None if on is None else column_names(on)
        keys = self._table.load().schema.primary_keys
        if keys and names is not None and set(names) != set(keys):
            raise OptionError(
                f"rows of this table are distinguished by its primary key {', '.join(keys)}: leave out 'on'"
            )
        if keys:
            return self.append(source).as_upsert()
        if not names:
            raise OptionError("an upsert into a table without primary key needs on=<columns that tell rows apart>")
        return self.merge(source, names).when_matched_update().when_not_matched_insert().execute()

    def overwrite(self, df: DataFrame, where: str | None = None, **options: Unpack[KeywordOptions]) -> RowCounts:
        """Replace the table by rows, or the partitions that `options` name.

        Args:
            df: the rows; columns are matched by name.
            where: a condition that names the partitions to replace, ``"dt = '2024-01-31'"``; as ``replace_where``.
            options: ``partition_overwrite_mode="dynamic"`` replaces the partitions that appear in the rows (without
                rows none), ``"static"`` the whole table. Without any the session's
                ``spark.sql.sources.partitionOverwriteMode`` counts, then the table's `dynamic-partition-overwrite`;
                else the whole table is replaced.

        Returns:
            How many rows were written, as of `append`. Rows that went are not counted.
        """
        partitions = {} if where is None else {"replace_where": where}
        return save_rows(self._table, df, "overwrite", {**options, **partitions})

    schema = property_of(Definition, "schema")
    columns = property_of(Definition, "columns")
    count = method_of(Definition, Definition.count)
    show = method_of(Definition, Definition.show)
    add_column = method_of(Definition, Definition.add_column)
    rename_column = method_of(Definition, Definition.rename_column)
    drop_column = method_of(Definition, Definition.drop_column)
    alter_column = method_of(Definition, Definition.alter_column)
    set_options = method_of(Definition, Definition.set_options)
    unset_options = method_of(Definition, Definition.unset_options)
    set_comment = method_of(Definition, Definition.set_comment)
    drop = method_of(Definition, Definition.drop)

    delete = method_of(Rows, Rows.delete)
    update = method_of(Rows, Rows.update)
    merge = method_of(Merges, Merges.merge)

    snapshots = method_of(SystemTables, SystemTables.snapshots)
    history = method_of(SystemTables, SystemTables.history)
    schemas = method_of(SystemTables, SystemTables.schemas)
    options = method_of(SystemTables, SystemTables.options)
    tags = method_of(SystemTables, SystemTables.tags)
    branches = method_of(SystemTables, SystemTables.branches)
    consumers = method_of(SystemTables, SystemTables.consumers)
    files = method_of(SystemTables, SystemTables.files)
    file_key_ranges = method_of(SystemTables, SystemTables.file_key_ranges)
    file_indexes = method_of(SystemTables, SystemTables.file_indexes)
    table_indexes = method_of(SystemTables, SystemTables.table_indexes)
    statistics = method_of(SystemTables, SystemTables.statistics)
    aggregation_fields = method_of(SystemTables, SystemTables.aggregation_fields)
    read_optimized = method_of(SystemTables, SystemTables.read_optimized)
    row_tracking = method_of(SystemTables, SystemTables.row_tracking)
    manifests = method_of(SystemTables, SystemTables.manifests)
    partitions = method_of(SystemTables, SystemTables.partitions)
    buckets = method_of(SystemTables, SystemTables.buckets)

    create_tag = method_of(Tags, Tags.create_tag)
    create_tag_from_timestamp = method_of(Tags, Tags.create_tag_from_timestamp)
    create_tag_from_watermark = method_of(Tags, Tags.create_tag_from_watermark)
    create_automatic_tags = method_of(Tags, Tags.create_automatic_tags)
    replace_tag = method_of(Tags, Tags.replace_tag)
    delete_tag = method_of(Tags, Tags.delete_tag)
    rename_tag = method_of(Tags, Tags.rename_tag)
    expire_tags = method_of(Tags, Tags.expire_tags)
    rollback_to_as_latest = method_of(Tags, Tags.rollback_to_as_latest)
    rollback_to = method_of(Tags, Tags.rollback_to)

    create_branch = method_of(Branches, Branches.create_branch)
    delete_branch = method_of(Branches, Branches.delete_branch)
    rename_branch = method_of(Branches, Branches.rename_branch)
    fast_forward = method_of(Branches, Branches.fast_forward)
    merge_branch = method_of(Branches, Branches.merge_branch)

    expire_snapshots = method_of(Expiry, Expiry.expire_snapshots)
    expire_changelogs = method_of(Expiry, Expiry.expire_changelogs)
    expire_partitions = method_of(Expiry, Expiry.expire_partitions)
    remove_orphan_files = method_of(Expiry, Expiry.remove_orphan_files)
    purge_files = method_of(Expiry, Expiry.purge_files)
    consumer_ids = method_of(Expiry, Expiry.consumer_ids)
    reset_consumer = method_of(Expiry, Expiry.reset_consumer)
    clear_consumers = method_of(Expiry, Expiry.clear_consumers)

    compact = method_of(Compaction, Compaction.compact)
    compact_manifest = method_of(Compaction, Compaction.compact_manifest)
    materialize_deletion_vectors = method_of(Compaction, Compaction.materialize_deletion_vectors)
    rescale = method_of(Compaction, Compaction.rescale)
    rewrite_file_index = method_of(Compaction, Compaction.rewrite_file_index)

    analyze = method_of(Repairs, Repairs.analyze)
    copy = method_of(Repairs, Repairs.copy)
    mark_partition_done = method_of(Repairs, Repairs.mark_partition_done)
    reassign_row_id = method_of(Repairs, Repairs.reassign_row_id)
    remove_unexisting_files = method_of(Repairs, Repairs.remove_unexisting_files)
    repair_earliest_snapshot = method_of(Repairs, Repairs.repair_earliest_snapshot)

    optimize = method_of(FamiliarWords, FamiliarWords.optimize)
    vacuum = method_of(FamiliarWords, FamiliarWords.vacuum)
    detail = method_of(FamiliarWords, FamiliarWords.detail)

    changes = method_of(Changes, Changes.changes)
    audit_log = method_of(Changes, Changes.audit_log)
    binlog = method_of(Changes, Changes.binlog)

    __repr__ = method_of(Display, Display.__repr__)
    _repr_html_ = method_of(Display, Display._repr_html_)
    lsm = method_of(Display, Display.lsm)


def _parsed_schema(spark: SparkSession, schema: StructType | str) -> StructType:
    """The schema, parsed by the session where it is text."""
    if isinstance(schema, StructType):
        return schema
    if not isinstance(schema, str):
        raise SchemaError(
            f"The columns of a table are given as a Spark schema or its text, such as 'id long, name string', not as "
            f"{type(schema).__module__.partition('.')[0]} {type(schema).__name__}: of a DataFrame give df.schema"
        )
    activate(spark)
    parsed = DataType.fromDDL(schema)  # a DataFrame of these columns could have no CHAR(n)
    return parsed if isinstance(parsed, StructType) else spark.createDataFrame([], schema).schema


def _is_planned(spark: SparkSession) -> bool:
    """Whether a save of a session is a write whose rows are shuffled by the catalog's rules."""
    if is_connect(spark):
        return False
    from paimon_spark.spark.hooks.install import shuffles_saves  # needs py4j, which a Connect client may lack

    return shuffles_saves(spark)


def save_rows(
    handle: TableHandle, df: DataFrame, mode: str, options: Mapping[str, Any], opened: FileStoreTable | None = None
) -> RowCounts:
    """Write rows as `PaimonTable.append` and `overwrite` do.

    Args:
        handle: the table.
        df: the rows; columns are matched by name.
        mode: ``append`` or ``overwrite``.
        options: of the write.
        opened: the table, if this statement has opened it already.
    """
    with counting() as reported:
        _write(handle, df, mode, {**options, REPORT_TO: reported.name}, opened)
    return reported.counts


def _write(
    handle: TableHandle, df: DataFrame, mode: str, options: Mapping[str, Any], opened: FileStoreTable | None
) -> None:
    check_frame(df, mode)
    given = {**handle.options, **option_keys(options)}
    settings = settings_option(handle.spark)
    request = write_request({"path": handle.path, **settings, **given}, overwrite=mode == "overwrite")
    of_branch = request.options.keys() & {"branch"} or request.session_options.keys() & {"branch"}
    table = target_table(request, df.schema, None if of_branch else opened)
    rows = df
    if mode == "overwrite":
        rows, replacing = replacing_rows(df, table)
        given, table = {**replacing, **given}, table.as_if(replacing)
    shuffled = is_shuffled(table)
    if shuffled:
        rows = with_shuffle_columns(table.schema, rows)
    if not _is_planned(handle.spark):
        replaced = overwrite_of(request, table) if mode == "overwrite" else None
        write = write_shuffled if shuffled else write_as_is
        write(RowsToWrite(rows, table, replaced, request.operation))
        return
    if shuffled:
        map_columns(table.schema, spark_arrow_schema(rows.schema))  # its errors come under their own names
    activate(handle.spark)
    try:
        rows.write.format("paimon").mode(mode).options(**given).save(handle.path)
    except PySparkException as error:
        own = class_named(type(error).__name__) if isinstance(error, CommitError) else None
        if own is None:
            raise error.with_traceback(None) from None  # the frames below are Spark's
        raise own(str(error)) from None
