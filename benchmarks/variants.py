"""One path of a VARIANT column with 30 fields, 1 M rows: shredded, against the whole values and Spark's own reader.

Prints CPU seconds of the JVM and its Python workers, and the bytes of the column chunks that are read.
"""

from __future__ import annotations

import pyarrow.parquet as pq
from common import Ratio, data_files, noop, scratch, spark_session
from deletion_vectors import cpu_in_turn, cpu_seconds

import paimon_spark

ROWS = 1_000_000
NUMBERS, TEXTS = 15, 12
PATHS = {"a number": ["try_variant_get(v, '$.n3', 'bigint')"], "two fields": ["v:t2::string", "v:o.lat::double"]}
SETTING = "spark.sql.variant.pushVariantIntoScan"


def make_table(path: str, options: dict[str, str]) -> float:
    """Write the rows; return the CPU seconds that it took."""
    spark = spark_session()
    parts = [f"'n{i}', hash(id, {i})" for i in range(NUMBERS)]
    parts += [f"'t{i}', concat('text ', pmod(hash(id, 't', {i}), 1000000))" for i in range(TEXTS)]
    parts += ["'o', named_struct('lat', id / 7, 'lon', rand(1))", "'ok', id % 3 = 0", "'tags', array('a', 'b')"]
    value = f"to_variant_object(named_struct({', '.join(parts)}))"
    rows = spark.range(0, ROWS, 1, 4).selectExpr("id", f"{value} AS v")
    start = cpu_seconds()
    rows.write.format("paimon").mode("append").options(bucket="-1", **options).save(path)
    return cpu_seconds() - start


def chunk_bytes(path: str, touched: tuple[str, ...]) -> int:
    """Bytes of the column chunks of a table's files whose paths begin in one of these ways."""
    total = 0
    for file in data_files(path):
        metadata = pq.read_metadata(file)
        for group in range(metadata.num_row_groups):
            chunks = [metadata.row_group(group).column(at) for at in range(metadata.num_columns)]
            total += sum(c.total_compressed_size for c in chunks if f"{c.path_in_schema}.".startswith(touched))
    return total


def run() -> list[tuple[Ratio, float]]:
    """Measure."""
    spark = spark_session()
    paimon_spark.register(spark)
    shredded, plain = scratch("variants_shredded"), scratch("variants_plain")
    spent = make_table(shredded, {"variant.inferShreddingSchema": "true"}), make_table(plain, {})
    print(f"write, CPU seconds: {spent[0]:.2f} shredded, {spent[1]:.2f} as they are")
    top = ("v.metadata.", "v.value.")
    parts = {
        "n3": (*top, "v.typed_value.n3."),
        "t2, o.lat": (*top, "v.typed_value.t2.", "v.typed_value.o.value.", "v.typed_value.o.typed_value.lat."),
    }
    for name, touched in (*parts.items(), ("whole", ("v.",))):
        print(
            f"bytes of {name}: {chunk_bytes(shredded, touched):,} shredded, {chunk_bytes(plain, ('v.',)):,} as they are"
        )
    files = data_files(shredded)
    found = []
    for name, columns in PATHS.items():

        def narrow(path: str = shredded) -> None:
            noop(spark.read.format("paimon").load(path).selectExpr(*columns))  # noqa: B023

        def whole() -> None:
            spark.conf.set(SETTING, "false")
            narrow()
            spark.conf.unset(SETTING)

        def unshredded() -> None:
            narrow(plain)

        def sparks() -> None:
            noop(spark.read.schema("id bigint, v variant").parquet(*files).selectExpr(*columns))  # noqa: B023

        for peer, yardstick in (
            ("whole values", whole),
            ("values as they are", unshredded),
            ("spark.read.parquet", sparks),
        ):
            found.append((cpu_in_turn(f"{name} ÷ {peer}", narrow, yardstick, 3), 1.0))
    return found


if __name__ == "__main__":
    for ratio, _ in run():
        print(ratio)
