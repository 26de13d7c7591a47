"""Random data types."""

from hypothesis import strategies as st

from paimon_spark.spec import data_types as t

NAMES = st.text(min_size=1, max_size=8).filter(
    lambda name: name.strip() != "" and name.encode(errors="replace") is not None
)

LENGTHS = st.one_of(st.integers(1, 100), st.just(t.MAX_LENGTH))

PRECISIONS = st.integers(0, 9)

NUMBERS = (t.BooleanType, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.FloatType, t.DoubleType)


@st.composite
def decimals(draw: st.DrawFn) -> t.DecimalType:
    precision = draw(st.integers(1, 38))
    return t.DecimalType(precision, draw(st.integers(0, precision)))


ATOMIC = st.one_of(
    st.sampled_from([*(kind() for kind in NUMBERS), t.DateType(), t.VariantType(), t.BlobType()]),
    decimals(),
    *(st.builds(kind, LENGTHS) for kind in (t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType)),
    *(st.builds(kind, PRECISIONS) for kind in (t.TimeType, t.TimestampType, t.LocalZonedTimestampType)),
    st.builds(t.GeometryType, st.sampled_from(["OGC:CRS84", "EPSG:3857", "a b", "it's", "4326"])),
    st.builds(t.GeographyType, st.just("OGC:CRS84"), st.sampled_from(["spherical", "karney"])),
)


def nested(inner: st.SearchStrategy[t.DataType]) -> st.SearchStrategy[t.DataType]:
    rows = st.lists(st.tuples(NAMES, inner, st.none() | st.text(max_size=5)), max_size=4, unique_by=lambda x: x[0])
    return st.one_of(
        st.builds(t.ArrayType, inner),
        st.builds(t.MultisetType, inner),
        st.builds(t.MapType, inner, inner),
        st.builds(t.VectorType, st.sampled_from([kind() for kind in NUMBERS]), st.integers(1, 9)),
        rows.map(lambda items: t.RowType(tuple(t.DataField(i, *item) for i, item in enumerate(items)))),
    )


TYPES = st.builds(
    lambda kind, nullable: kind.with_nullable(nullable), st.recursive(ATOMIC, nested, max_leaves=8), st.booleans()
)
