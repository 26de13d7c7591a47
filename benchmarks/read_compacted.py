"""A compacted primary-key table, through two doors, against `spark.read.parquet` on the same files."""

from __future__ import annotations

from pathlib import Path

from common import KEY_TABLES, Ratio, in_turn, make_key_table, noop, scratch, spark_session

from paimon_spark import PaimonTable


def run() -> list[tuple[Ratio, float]]:
    """Measure all columns to the noop sink: the files are the rows, so no row passes through Python."""
    spark = spark_session()
    path = scratch("compacted")
    if not Path(path).exists():
        make_key_table(spark, path, KEY_TABLES["deduplicate"])
        PaimonTable.for_path(spark, path).compact()
    files = [row.file_path for row in PaimonTable.for_path(spark, path).files().select("file_path").collect()]
    doors = {
        'format("paimon")': lambda: spark.read.format("paimon").load(path),
        "PaimonTable.to_df": lambda: PaimonTable.for_path(spark, path).to_df(),
    }
    return [
        (
            in_turn(
                f"compacted key table by {door} ÷ spark.read.parquet",
                lambda load=load: noop(load()),
                lambda: noop(spark.read.parquet(*files)),
            ),
            1.1,
        )
        for door, load in doors.items()
    ]


if __name__ == "__main__":
    for ratio, limit in run():
        print(ratio.line(limit))
