"""A REST catalog shared with Java's: each reads, writes, alters and drops what the other made; no commit is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import SchemaError
from paimon_spark.maintain.refs.branches import create_branch, delete_branch
from paimon_spark.maintain.refs.rollback import rollback_to_snapshot
from paimon_spark.maintain.refs.tags import create_tag
from paimon_spark.spec.data_types import DataField, IntType
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.view_records import Function, sql_definition
from paimon_spark.table.catalog_views import create_function, drop_function, find_function, functions_of
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.metastore_catalog import open_catalog
from paimon_spark.table.schema_change import AddColumn, SetOption
from paimon_spark.table.schema_evolution import alter_table
from tests.support.java_race import check_race
from tests.support.rest_server import RestProxy, RestServer, java_of_rest, rest_database, rest_proxy
from tests.support.store_tables import FIELDS, insert, rows_of

SCHEMA = create_schema(FIELDS, primary_keys=["k"], options={"bucket": "1", "commit.max-retries": "500"})


@pytest.fixture(scope="module")
def proxy(rest: RestServer) -> Iterator[RestProxy]:
    """A proxy that counts Java's requests."""
    with rest_proxy(rest) as found:
        yield found


@pytest.fixture(scope="module")
def java(rest: RestServer, proxy: RestProxy) -> Iterator[Any]:
    with java_of_rest(rest.options(proxy.uri)) as opened:
        yield opened


@pytest.fixture
def ours(rest: RestServer) -> Iterator[FilesystemCatalog]:
    with rest_database(rest, "o") as found:
        yield found


def test_java_reads_and_writes_a_table_with_a_location_of_ours(
    java: Any, ours: FilesystemCatalog, tmp_path: Path
) -> None:
    schema = SCHEMA.with_options({**SCHEMA.options, "path": f"{tmp_path}/elsewhere"})
    table = ours.create_table("o", "external", schema)
    insert(table, {1: 10})
    assert java.rows("o.external") == [(1, 10)]
    java.write("o.external", [(2, 20)])
    assert rows_of(ours.load_table("o", "external")) == {1: 10, 2: 20}
    assert (tmp_path / "elsewhere/snapshot/snapshot-2").exists()


def test_java_reads_and_changes_what_we_make(java: Any, ours: FilesystemCatalog) -> None:
    table = ours.create_table("o", "ours", SCHEMA)
    insert(table, {1: 10, 2: 20})
    assert java.rows("o.ours") == [(1, 10), (2, 20)]
    java.write("o.ours", [(2, 21), (3, 30)])
    assert rows_of(ours.load_table("o", "ours")) == {1: 10, 2: 21, 3: 30}
    alter_table(
        ours.load_table("o", "ours"), [SetOption("snapshot.num-retained.min", "7"), AddColumn(("w",), IntType())]
    )
    assert java.describe("o.ours")["options"]["snapshot.num-retained.min"] == "7"
    assert java.rows("o.ours")[0] == (1, 10, None)
    rollback_to_snapshot(ours.load_table("o", "ours"), 1)
    assert [row[:2] for row in java.rows("o.ours")] == [(1, 10), (2, 20)]
    java.write("o.ours", [(4, 40, 4)])
    assert rows_of(ours.load_table("o", "ours")) == {1: 10, 2: 20, 4: 40}
    create_tag(ours.load_table("o", "ours"), "two", snapshot_id=2)
    create_branch(ours.load_table("o", "ours"), "b", tag="two")
    java.write("o.ours$branch_b", [(5, 50, 5)])
    assert rows_of(ours.load_table("o", "ours$branch_b")) == {1: 10, 2: 20, 4: 40, 5: 50}
    delete_branch(ours.load_table("o", "ours"), "b")
    ours.drop_table("o", "ours")
    with pytest.raises(Exception, match="does not exist"):
        java.rows("o.ours")


def test_we_read_and_change_what_java_makes(java: Any, ours: FilesystemCatalog) -> None:
    java.create("o.theirs", [("k", "INT NOT NULL"), ("v", "INT")], pk=["k"], options={"bucket": "1"})
    java.write("o.theirs", [(1, 10)])
    assert ours.tables("o") == ["theirs"]
    insert(ours.load_table("o", "theirs"), {2: 20})
    assert java.rows("o.theirs") == [(1, 10), (2, 20)]
    with pytest.raises(SchemaError):
        ours.create_table("o", "theirs", SCHEMA)
    java.drop("o.theirs")
    assert ours.tables("o") == []


def test_java_reads_our_functions_and_we_its(java: Any, ours: FilesystemCatalog) -> None:
    inputs = (DataField(0, "x", IntType()), DataField(1, "y", IntType(), "the y", default_value="10"))
    options = {"spark.sql-function.is-query": "false", "catalogAndNamespace.part.1": "o"}
    result = (DataField(0, "scaled", IntType()),)
    made = Function(inputs, result, False, sql_definition("x * y"), "scales", options)
    assert create_function(ours, "o", "scaled", made)
    assert not create_function(ours, "o", "scaled", made)
    found = java.function("o.scaled")
    assert found == made.to_json_object("scaled")
    for name, definition in (
        ("sql", {"type": "sql", "definition": "1"}),
        ("lambda", {"type": "lambda", "definition": "() -> 1", "language": "JAVA"}),
    ):
        java.create_function(f"o.of_{name}", {**found, "name": f"of_{name}", "definitions": {"spark": definition}})
        assert find_function(ours, "o", f"of_{name}") == replace(made, definitions={"spark": definition})
    assert java.functions("o") == functions_of(ours, "o") == ["of_lambda", "of_sql", "scaled"]
    java.drop_function("o.scaled")
    assert find_function(ours, "o", "scaled") is None
    for name in functions_of(ours, "o"):
        assert drop_function(ours, "o", name)
    assert java.functions("o") == []


def test_ours_and_javas_commits_race_and_none_is_lost(java: Any, ours: FilesystemCatalog) -> None:
    ours.create_table("o", "r", SCHEMA)
    check_race(java, ours, "o", "r", turns=6)


def test_requests_are_as_few_as_javas(java: Any, rest: RestServer, ours: FilesystemCatalog, proxy: RestProxy) -> None:
    ours.create_table("o", "n", SCHEMA)
    java.write("o.n", [(1, 10)], options={"write-only": "true"})
    proxy.taken()
    java.write("o.n", [(1, 10)], options={"write-only": "true"})
    java_writes = proxy.taken()
    java.rows("o.n")
    java_reads = proxy.taken()
    catalog = open_catalog("wh", rest.options(proxy.uri))
    proxy.taken()
    insert(catalog.load_table("o", "n"), {1: 11})
    we_write = proxy.taken()
    rows_of(catalog.load_table("o", "n"))
    we_read = proxy.taken()
    assert (len(we_write), len(we_read)) == (4, 2)
    assert len(java_writes) >= 4
    assert len(java_reads) >= 2
