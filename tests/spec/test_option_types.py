"""Columns whose type an option says (``blob-field``, ``vector-field`` and such)."""

from __future__ import annotations

import pytest

from paimon_spark.errors import PaimonError
from paimon_spark.spec.data_types import ArrayType, DataField, DataType, IntType, MapType, VarBinaryType, VarCharType
from paimon_spark.table.new_schema import with_option_types

BYTES = VarBinaryType(VarBinaryType.MAX)
KINDS: dict[str, DataType] = {
    "one": BYTES,
    "many": ArrayType(BYTES),
    "named": MapType(VarCharType(9, nullable=False), BYTES),
    "k": IntType(),
}


def typed(name: str, options: dict[str, str]) -> str:
    return with_option_types([DataField(0, name, KINDS[name])], options)[0].type.sql()


@pytest.mark.parametrize(
    "key", ["blob-field", "blob-descriptor-field", "blob.stored-descriptor-fields", "blob-view-field"]
)
def test_options_that_make_blobs(key: str) -> None:
    assert typed("one", {key: "x, one"}) == "BLOB"
    assert typed("k", {key: "one"}) == "INT"
    for name, wanted in (("many", "ARRAY<BLOB>"), ("named", "MAP<VARCHAR(9) NOT NULL, BLOB>")):
        if key == "blob-field":
            assert typed(name, {key: name}) == wanted
        else:
            with pytest.raises(PaimonError, match="is only supported by 'blob-field'"):
                typed(name, {key: name})
    with pytest.raises(PaimonError, match="must be binary"):
        typed("k", {key: "k"})
