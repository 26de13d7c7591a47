"""Comments that make new columns BLOB or VECTOR (Java: ``ColumnDirectiveUtils``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark.errors import PaimonError, SchemaChangeError, SchemaError
from paimon_spark.spec.data_types import (
    ArrayType,
    DataField,
    DataType,
    FloatType,
    IntType,
    MapType,
    RowType,
    VarBinaryType,
)
from paimon_spark.spec.schema import create_schema
from paimon_spark.table.new_schema import with_directive, with_directives
from paimon_spark.table.schema_change import AddColumn, DropColumn, UpdateColumnComment
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.table import create_table, load_table

BYTES = VarBinaryType(VarBinaryType.MAX)
DATA_EVOLUTION = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}


def column(kind: DataType, comment: str | None, name: str = "c") -> DataField:
    return DataField(0, name, kind, description=comment)


@pytest.mark.parametrize(
    ("comment", "key"),
    [
        ("__BLOB_FIELD", "blob-field"),
        (" __BLOB_DESCRIPTOR_FIELD; a picture", "blob-descriptor-field"),
        ("__BLOB_VIEW_FIELD ;", None),
        ("__BLOB_VIEW_FIELD;", "blob-view-field"),
    ],
)
def test_blobs(comment: str, key: str | None) -> None:
    options = {"blob-field": "x", "blob.stored-descriptor-fields": "y , z"}
    if key is None:
        with pytest.raises(SchemaError, match="Unsupported BLOB directive"):
            with_directive(column(BYTES, comment), options)
        return
    found = with_directive(column(BYTES, comment), options)
    assert (found.type.sql(), found.description) == ("BLOB", "a picture" if "picture" in comment else None)
    wanted = {"blob-field": "x,c", "blob-descriptor-field": "y,z,c", "blob-view-field": "c"}
    assert options[key] == wanted[key]
    assert ("blob.stored-descriptor-fields" in options) == (key != "blob-descriptor-field")


def test_types() -> None:
    fields = [
        column(ArrayType(BYTES), "__BLOB_FIELD;x", "many"),
        column(MapType(IntType(nullable=False), BYTES), "__BLOB_FIELD", "named"),
        column(ArrayType(FloatType()), "__VECTOR_FIELD; 3; emb", "v"),
        column(IntType(), "no __BLOB_FIELD", "k"),
    ]
    found, options = with_directives(fields, {})
    assert [field.type.sql() for field in found] == [
        "ARRAY<BLOB>",
        "MAP<INT NOT NULL, BLOB>",
        "VECTOR<FLOAT, 3>",
        "INT",
    ]
    assert [field.description for field in found] == ["x", None, "emb", "no __BLOB_FIELD"]
    assert options == {"blob-field": "many,named", "vector-field": "v"}


@pytest.mark.parametrize(
    ("kind", "comment", "text"),
    [
        (BYTES, "__BLOB", "Unsupported BLOB directive"),
        (BYTES, "__BLOB_FIELDS", "Unsupported BLOB directive"),
        (IntType(), "__BLOB_FIELD", "must be of BYTES"),
        (ArrayType(IntType()), "__BLOB_FIELD", "must be of BYTES"),
        (ArrayType(BYTES), "__BLOB_VIEW_FIELD", "is only supported by 'blob-field'"),
        (MapType(IntType(nullable=False), BYTES), "__BLOB_DESCRIPTOR_FIELD", "is only supported by 'blob-field'"),
        (ArrayType(FloatType()), "__VECTOR", "Unsupported VECTOR directive"),
        (ArrayType(FloatType()), "__VECTOR_FIELD", "requires a dimension"),
        (ArrayType(FloatType()), "__VECTOR_FIELD;0", "integer dimension"),
        (BYTES, "__VECTOR_FIELD;2", "must be of ARRAY type"),
    ],
)
def test_comments_that_do_not_fit(kind: DataType, comment: str, text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        with_directive(column(kind, comment), {})


def test_columns_that_are_added_and_dropped(tmp_path: Path) -> None:
    fields = [DataField(0, "k", IntType()), DataField(1, "r", RowType((DataField(2, "x", IntType()),)))]
    table = create_table(str(tmp_path / "t"), create_schema(fields, options=DATA_EVOLUTION))
    alter_table(table, [AddColumn(("pic",), BYTES, "__BLOB_FIELD; a picture")])
    alter_table(load_table(table.path), [AddColumn(("d",), BYTES, "__BLOB_DESCRIPTOR_FIELD")])
    schema = load_table(table.path).schema
    assert [field.type.sql() for field in schema.fields[2:]] == ["BLOB", "BLOB"]
    assert schema.field("pic").description == "a picture"
    assert (schema.options["blob-field"], schema.options["blob-descriptor-field"]) == ("pic", "d")
    with pytest.raises(SchemaChangeError, match=r"nested column r\.y"):
        alter_table(load_table(table.path), [AddColumn(("r", "y"), BYTES, "__BLOB_FIELD")])
    with pytest.raises(PaimonError, match="through column directives"):
        alter_table(load_table(table.path), [UpdateColumnComment(("k",), "__BLOB_FIELD")])
    alter_table(load_table(table.path), [DropColumn(("pic",)), DropColumn(("d",))])
    assert not {"blob-field", "blob-descriptor-field"} & load_table(table.path).schema.options.keys()
