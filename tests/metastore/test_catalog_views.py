"""Views of catalogs, which Java's catalogs share: each kind keeps what Java keeps, and reads what Java made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import absent
from paimon_spark.errors import CorruptTableError, PaimonError, SchemaError, TableNotFoundError, UnsupportedError
from paimon_spark.metastore.hive_records import paimon_type
from paimon_spark.spec.data_types import DataField, DecimalType, IntType, VarCharType
from paimon_spark.spec.view_records import View, ViewChange, changed_view, new_view
from paimon_spark.table.catalog_views import (
    alter_view,
    create_view,
    drop_view,
    find_view,
    rename_view,
    replace_view,
    views_of,
)
from paimon_spark.table.metastore_catalog import MetastoreCatalog, open_catalog

KINDS = ("jdbc", "rest", "hive")
FIELDS = (
    DataField(0, "k", IntType(), "the key"),
    DataField(1, "v", VarCharType(VarCharType.MAX), None),
    DataField(2, "p", DecimalType(10, 2), None),
)
VIEW = new_view(FIELDS, "SELECT k, v, p FROM t", comment="of t", options={"team": "lake"})


def _options(kind: str, request: pytest.FixtureRequest, folder: Path) -> dict[str, str]:
    if kind == "jdbc":
        return {"metastore": "jdbc", "uri": f"jdbc:sqlite:{folder}/catalog.db"}
    server = request.getfixturevalue(kind)
    found: dict[str, str] = server.options() if kind == "rest" else {"metastore": "hive", "uri": server.uri}
    return found


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def options(kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp(kind)
    warehouse = "wh" if kind == "rest" else str(folder / "warehouse")
    return {**_options(kind, request, folder), "warehouse": warehouse}


@pytest.fixture
def catalog(options: dict[str, str]) -> Iterator[MetastoreCatalog]:
    found = open_catalog(options["warehouse"], options)
    assert isinstance(found, MetastoreCatalog)
    found.create_database("vw")
    yield found
    for name in views_of(found, "vw"):  # the server of Java's tests keeps those of a database that it drops
        drop_view(found, "vw", name)
    found.drop_database("vw", cascade=True)


def test_a_view_is_made_changed_renamed_and_dropped(catalog: MetastoreCatalog, kind: str) -> None:
    create_view(catalog, "vw", "a", VIEW)
    assert find_view(catalog, "vw", "a") == (replace(VIEW, dialects={}) if kind == "hive" else VIEW)
    assert views_of(catalog, "vw") == ["a"]
    assert catalog.tables("vw") == []
    with pytest.raises(SchemaError, match="already exists"):
        create_view(catalog, "vw", "a", VIEW)
    changes = [ViewChange("setOption", "team", "x"), ViewChange("updateComment", None, "new")]
    alter_view(catalog, "vw", "a", changes)
    found = find_view(catalog, "vw", "a")
    assert found is not None
    assert (found.options, found.comment, found.query) == ({"team": "x"}, "new", VIEW.query)
    alter_view(catalog, "vw", "a", [ViewChange("removeOption", "team")])
    rename_view(catalog, "vw", "a", "vw", "b")
    assert views_of(catalog, "vw") == ["b"]
    other = new_view(FIELDS[:1], "SELECT k FROM u")
    replace_view(catalog, "vw", "b", other)
    create_view(catalog, "vw", "b", other, replaces=True)
    found = find_view(catalog, "vw", "b")
    assert found is not None
    assert (found.spark_query, len(found.fields), found.comment) == ("SELECT k FROM u", 1, None)
    with pytest.raises(PaimonError, match="not empty"):
        catalog.drop_database("vw")
    drop_view(catalog, "vw", "b")
    with pytest.raises(TableNotFoundError, match=r"View vw\.b does not exist"):
        drop_view(catalog, "vw", "b")
    assert find_view(catalog, "vw", "b") is None


def test_tables_and_views_share_names(catalog: MetastoreCatalog, kind: str) -> None:
    from paimon_spark.spec.schema import create_schema

    create_view(catalog, "vw", "v", VIEW)
    if kind != "rest":  # there the server decides, and that of Java's tests lets it pass
        with pytest.raises(SchemaError):
            catalog.create_table("vw", "v", create_schema(FIELDS))
    else:
        catalog.create_table("vw", "v", create_schema(FIELDS))
        with pytest.raises(SchemaError, match="there is a table of its name"):
            create_view(catalog, "vw", "v", VIEW, replaces=True)
        assert find_view(catalog, "vw", "v") == VIEW
        catalog.drop_table("vw", "v")
    catalog.create_table("vw", "t", create_schema(FIELDS))
    with pytest.raises(SchemaError, match="already exists"):
        create_view(catalog, "vw", "t", VIEW)
    with pytest.raises(SchemaError, match="already exists"):
        rename_view(catalog, "vw", "v", "vw", "t")
    with pytest.raises(SchemaError, match=r"cannot contain '\$'"):
        create_view(catalog, "vw", "v$files", VIEW)
    with pytest.raises(PaimonError, match="Database nowhere does not exist"):
        create_view(catalog, "nowhere", "v", VIEW)


def test_dialects(catalog: MetastoreCatalog, kind: str) -> None:
    create_view(catalog, "vw", "d", VIEW)
    if kind == "hive":
        with pytest.raises(UnsupportedError, match=r"vw\.d has no dialects"):
            alter_view(catalog, "vw", "d", [ViewChange("addDialect", "flink", "SELECT 1")])
        return
    alter_view(catalog, "vw", "d", [ViewChange("addDialect", "flink", "SELECT 1")])
    alter_view(catalog, "vw", "d", [ViewChange("updateDialect", "flink", "SELECT 2")])
    found = find_view(catalog, "vw", "d")
    assert found is not None
    assert found.dialects == {"spark": VIEW.query, "flink": "SELECT 2"}
    with pytest.raises(SchemaError, match=r"flink.*already exists"):
        alter_view(catalog, "vw", "d", [ViewChange("addDialect", "flink", "SELECT 1")])
    alter_view(catalog, "vw", "d", [ViewChange("dropDialect", "flink")])
    with pytest.raises(SchemaError, match=r"flink.*does not exist"):
        alter_view(catalog, "vw", "d", [ViewChange("dropDialect", "flink")])


@pytest.fixture(scope="module")
def java(kind: str, options: dict[str, str]) -> Iterator[Any]:
    """Java's catalog of the same options."""
    from tests.oracle.paimon_oracle import PaimonOracle
    from tests.support.hive_server import java_catalog

    try:
        given: dict[str, Any] = {"options": {**options, "cache-enabled": "false"}}
        if kind == "hive":
            jar, needed = java_catalog()
            given |= {"version": "1.2.0", "bundle": jar, "jars": needed}
        opened = PaimonOracle(options["warehouse"], **given)
    except (OSError, RuntimeError) as error:
        absent(f"Java's {kind} catalog ({' '.join(str(error).split())[:200]})")
    with opened:
        yield opened


def test_java_keeps_the_text_of_a_view_alike(oracle: Any) -> None:
    """Its JDBC catalog has no views in its latest release, 1.4.2; what it is to read is of an earlier class."""
    assert oracle.rewritten_view(VIEW.to_json()) == VIEW.to_json()


@pytest.mark.parametrize("kind", ["rest", "hive"], indirect=True)
def test_java_reads_our_views_and_we_its(catalog: MetastoreCatalog, java: Any, kind: str) -> None:
    create_view(catalog, "vw", "ours", VIEW)
    theirs = java.view("vw.ours")
    theirs["options"] = {key: text for key, text in theirs["options"].items() if key in VIEW.options}
    assert View.of(theirs, where="") == find_view(catalog, "vw", "ours")
    dialects = {} if kind == "hive" else {"flink": "SELECT 1", "spark": "SELECT 2 AS k"}
    made = View(FIELDS[:1], "SELECT 3", dialects, "c", {"o": "x"})
    java.create_view("vw.theirs", made.to_json_object())
    assert find_view(catalog, "vw", "theirs") == made
    assert java.views("vw") == views_of(catalog, "vw") == ["ours", "theirs"]
    rename_view(catalog, "vw", "theirs", "vw", "renamed")
    java.rename_view("vw.ours", "vw.again")
    alter_view(catalog, "vw", "again", [ViewChange("setOption", "team", "y")])
    assert java.view("vw.again")["options"]["team"] == "y"
    java.drop_view("vw.renamed")
    assert views_of(catalog, "vw") == ["again"]


def test_changes_of_a_view() -> None:
    changed = changed_view(VIEW, [ViewChange("updateComment")], name="d.v")
    assert changed.comment is None
    assert View.from_json(changed.to_json(), where="x") == changed
    with pytest.raises(CorruptTableError, match="x"):
        View.from_json("{}", where="x")


def test_types_of_hive() -> None:
    text = "struct<a:int,b:map<string,array<decimal(10,2)>>,c:timestamp>"
    assert str(paimon_type(text)) == "ROW<`a` INT, `b` MAP<STRING, ARRAY<DECIMAL(10, 2)>>, `c` TIMESTAMP(6)>"
    assert str(paimon_type("varchar(7)")) == "VARCHAR(7)"


def test_a_directory_keeps_no_views(tmp_path: Path) -> None:
    catalog = open_catalog(str(tmp_path), {})
    with pytest.raises(UnsupportedError, match="keeps no views, since it is a directory"):
        create_view(catalog, "default", "v", VIEW)
    assert views_of(catalog, "default") == []
    assert find_view(catalog, "default", "v") is None
