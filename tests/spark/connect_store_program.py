"""A Connect client on a store. Arguments: the address of the server, a warehouse, options as JSON."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import paimon_spark


def main(address: str, warehouse: str, options: dict[str, str]) -> None:
    spark = SparkSession.builder.remote(address).getOrCreate()
    paimon_spark.register(spark)
    path = f"{warehouse}/d.db/t"
    users = paimon_spark.PaimonTable.create(
        spark, path, "id long not null, name string", primary_key="id", options={"bucket": "1", **options}
    )
    users.append(spark.createDataFrame([(1, "a"), (2, "b")], "id long, name string"))
    users.upsert(spark.createDataFrame([(2, "B"), (3, "c")], "id long, name string"), on="id")
    users.create_tag("one")
    users.delete("id = 1")
    users.compact()

    def text(statement: str) -> list[tuple[object, ...]]:
        found = paimon_spark.sql(spark, statement, warehouse=warehouse, **options)
        return sorted(tuple(row) for row in found.collect())

    text("INSERT INTO d.t VALUES (4, 'd')")
    found = {
        "rows": text("SELECT * FROM d.t"),
        "tag": users.to_df(scan_tag_name="one").count(),
        "loaded": spark.read.format("paimon").options(**options).load(path).count(),
        "tables": text("SHOW TABLES IN d"),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
