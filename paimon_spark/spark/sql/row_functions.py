"""Functions of rows in the namespace ``sys``, as SQL of Spark's own functions: so executors need no class of ours.

Equal Java's ``PaimonFunctions``: buckets of keys, and the bytes that name BLOB values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StructType

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.spark.columns.bucket_expression import bucket_expression, little_endian
from paimon_spark.spark.columns.types import from_spark_struct
from paimon_spark.spec.data_types import BlobType
from paimon_spark.spec.schema import create_schema
from paimon_spark.storage.blob_descriptor import HEADER, blob_view
from paimon_spark.table.paths import MAIN_BRANCH

if TYPE_CHECKING:
    from paimon_spark.table.table import FileStoreTable


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function."""

    types: StructType
    """Of the arguments."""
    names: Sequence[str]
    """The arguments as SQL."""
    constants: Sequence[Any]
    """The first arguments, where they must be constants."""
    open_table: Callable[[str], FileStoreTable]


@dataclass(frozen=True, slots=True)
class RowFunction:
    """A function whose value is an SQL expression over its arguments."""

    name: str
    usage: str
    """For errors and DESCRIBE FUNCTION."""
    result: str
    """Spark's type."""
    types: tuple[str, ...]
    """Of its arguments, in Spark's words."""
    sql: Callable[[Call], str]
    constants: int = 0
    """How many of the first arguments must be constants."""
    varies: bool = False
    """Whether further arguments of any type follow."""
    refusal: str = ""
    """Why it is not there, though the official connector has it."""

    def check(self, types: Sequence[str]) -> None:
        """Check the types of arguments.

        Raises:
            UnsupportedError: there are others; or there is no such function here.
        """
        if self.refusal:
            raise UnsupportedError(f"Function sys.{self.name} is not supported: {self.refusal}.")
        fits = len(types) > len(self.types) if self.varies else len(types) == len(self.types)
        if not fits or tuple(types[: len(self.types)]) != self.types:
            raise UnsupportedError(f"{self.name} is called as {self.usage}; not with ({', '.join(types)})")


def _path_to_descriptor(call: Call) -> str:
    path = call.names[0]
    size = f"substring({little_endian(f'CAST(octet_length({path}) AS BIGINT)')}, 1, 4)"
    return f"CAST(concat({_hex(HEADER)}, {size}, CAST({path} AS BINARY), X'{'00' * 8}{'FF' * 8}') AS BINARY)"


def _descriptor_to_string(call: Call) -> str:
    value = call.names[0]
    version = f"CAST(conv(hex(substring({value}, 1, 1)), 16, 10) AS INT)"
    # 1 has no magic number behind the version
    head = f"IF({version} = 1, 1, {len(HEADER)})"
    size = f"CAST({_number(value, f'{head} + 1', 4)} AS INT)"
    text = (
        f"concat('BlobDescriptor{{version=', {version}, ', uri=\\'', "
        f"CAST(substring({value}, {head} + 5, {size}) AS STRING), '\\', offset=', "
        f"{_number(value, f'{head} + 5 + {size}', 8)}, ', length=', {_number(value, f'{head} + 13 + {size}', 8)}, '}}')"
    )
    is_known = f"{version} = 1 OR ({version} = {HEADER[0]} AND substring({value}, 1, {len(HEADER)}) = {_hex(HEADER)})"
    is_whole = f"octet_length({value}) >= {head} + 20 AND octet_length({value}) >= {head} + 20 + {size}"
    damaged = "raise_error('Invalid BlobDescriptor data: these bytes are no descriptor of a BLOB value.')"
    return f"IF({value} IS NULL, NULL, IF(({is_known}) AND {is_whole}, {text}, CAST({damaged} AS STRING)))"


def _number(value: str, start: str, count: int) -> str:
    """Some bytes of a value as a number in decimal digits, lowest byte first."""
    pairs = ", ".join(f"hex(substring({value}, {start} + {at}, 1))" for at in reversed(range(count)))
    return f"conv(concat({pairs}), 16, -10)"


def _blob_view(call: Call) -> str:
    name, column = call.constants[:2]
    if name is None or column is None:
        return "CAST(NULL AS BINARY)"
    table = call.open_table(name)
    database, own_name = table.path.rstrip("/").split("/")[-2:]
    branch = "" if table.branch == MAIN_BRANCH else f"$branch_{table.branch}"
    full_name = f"{database.removesuffix('.db')}.{own_name}{branch}"
    if not table.schema.has_field(column):
        raise OptionError(f"Cannot find blob field {column} in upstream table {full_name}.")
    field = table.schema.field(column)
    if not isinstance(field.type, BlobType):
        raise OptionError(f"Field {column} in upstream table {full_name} is not a BLOB field.")
    head = blob_view(full_name, field.id, 0)[:-8]
    return f"CAST(concat({_hex(head)}, {little_endian(call.names[2])}) AS BINARY)"


def _bucket_by(function: str) -> Callable[[Call], str]:
    def sql(call: Call) -> str:
        if call.constants[0] is None:
            return "CAST(NULL AS INT)"
        fields = from_spark_struct(StructType(call.types.fields[1:]))
        names = [field.name for field in fields]
        options = {"bucket": str(call.constants[0]), "bucket-key": ",".join(names), "bucket-function.type": function}
        schema = create_schema(fields, (), (), options, None)
        found = bucket_expression(schema, dict(zip(names, call.names[1:], strict=True)))
        if found is None:
            kinds = ", ".join(field.dataType.simpleString() for field in call.types.fields[1:])
            raise UnsupportedError(
                f"the bucket of ({kinds}) is no expression of Spark's functions: name the column __paimon_bucket of "
                "the table instead"
            )
        return found

    return sql


def _hex(value: bytes) -> str:
    return f"X'{value.hex().upper()}'"


FUNCTIONS: Final = {
    function.name: function
    for function in (
        RowFunction(
            "path_to_descriptor", "path_to_descriptor(path STRING)", "binary", ("string",), _path_to_descriptor
        ),
        RowFunction(
            "descriptor_to_string",
            "descriptor_to_string(descriptor BINARY)",
            "string",
            ("binary",),
            _descriptor_to_string,
        ),
        RowFunction(
            "blob_view",
            "blob_view('db.t', 'column', rowId BIGINT)",
            "binary",
            ("string", "string", "bigint"),
            _blob_view,
            constants=2,
        ),
        RowFunction(
            "bucket", "bucket(5, key, …)", "integer", ("int",), _bucket_by("default"), constants=1, varies=True
        ),
        RowFunction(
            "mod_bucket", "mod_bucket(5, key)", "integer", ("int",), _bucket_by("mod"), constants=1, varies=True
        ),
    )
}
_SIGNED = "fsspec signs URLs where a store does: fsspec.open(uri).fs.sign(path, expiration=3600)"
_OF_HIVE = "buckets of Hive are not written here; name the column __paimon_bucket of the table"
REFUSED: Final = {
    name: RowFunction(name, name, "string", (), lambda _: "NULL", refusal=reason)
    for name, reason in (
        ("descriptor_to_presigned_url", _SIGNED),
        ("try_descriptor_to_presigned_url", _SIGNED),
        ("hive_bucket", _OF_HIVE),
    )
}
"""Functions of the official connector that are not here."""
