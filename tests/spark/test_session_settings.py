"""What a session has set acts on loads and saves by path, when they are made; time zones of conditions too."""

import datetime
import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from paimon_spark import OptionError, PaimonTable, UnsupportedError
from paimon_spark.spark.session.session_options import options_for_path
from paimon_spark.spark.session.session_settings import time_zone
from paimon_spark.table.table import load_table

_numbers = itertools.count()


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[SparkSession]:
    """The session; what a test sets is taken back."""
    before = set(spark.conf.getAll)
    zone = spark.conf.get("spark.sql.session.timeZone")
    yield spark
    for key in set(spark.conf.getAll) - before:
        spark.conf.unset(key)
    spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> PaimonTable:
    """Two snapshots of one row each; the first one is tag `one`."""
    made = PaimonTable.create(spark, str(tmp_path / "db.db" / "t"), "k int not null, v string", primary_key="k")
    made.append(spark.sql("SELECT 1 AS k, 'a' AS v"))
    made.create_tag("one")
    made.append(spark.sql("SELECT 2 AS k, 'b' AS v"))
    return made


def test_names_of_tables_count_by_path() -> None:
    given = {
        "spark.paimon.scan.tag-name": "every",
        "spark.paimon.*.db.t.scan.tag-name": "t",
        "spark.paimon.*.*.u.scan.snapshot-id": "3",
        "spark.paimon.cat.db.t.scan.tag-name": "of a catalog",
        "spark.sql.session.timeZone": "UTC",
    }
    assert options_for_path(given, "/wh/db.db/t/") == {"scan.tag-name": "t"}
    assert options_for_path(given, "/wh/db.db/t$files") == {"scan.tag-name": "t"}
    assert options_for_path(given, "/wh/db.db/u") == {"scan.snapshot-id": "3"}
    assert options_for_path(given, "s3://bucket/t") == {"scan.tag-name": "every"}
    with pytest.raises(OptionError, match=r"Did you mean 'scan\.tag-name'\?.*RESET spark\.paimon\.scan\.tagname"):
        options_for_path({"spark.paimon.scan.tagname": "x"}, "/t")


@pytest.mark.parametrize(
    ("name", "hours"),
    [("UTC", 0), ("Z", 0), ("+02:00", 2), ("GMT-3", -3), ("UTC+05:30", 5.5), ("Asia/Tokyo", 9), ("+0100", 1)],
)
def test_time_zones_of_spark(name: str, hours: float) -> None:
    zone = time_zone({"spark.sql.session.timeZone": name})
    assert zone is not None
    assert zone.utcoffset(datetime.datetime(2024, 1, 1)) == datetime.timedelta(hours=hours)


def test_a_time_zone_that_nobody_knows_is_named() -> None:
    assert time_zone({}) is None
    with pytest.raises(OptionError, match="'Mars/Olympus', which Python does not know"):
        time_zone({"spark.sql.session.timeZone": "Mars/Olympus"})


@pytest.mark.spark
def test_reads_see_what_is_set_when_they_are_loaded(settings: SparkSession, table: PaimonTable) -> None:
    reader = settings.read.format("paimon")
    now = reader.load(table.path)
    settings.conf.set("spark.paimon.scan.tag-name", "one")
    then = settings.read.format("PAIMON").load(table.path)
    assert [tuple(row) for row in then.collect()] == [(1, "a")]
    assert settings.read.load(table.path, format="paimon").count() == 1
    assert table.to_df().count() == 1
    assert settings.read.format("paimon").option("scan.snapshot-id", 2).load(table.path).count() == 2
    assert table.to_df(scan_snapshot_id=2).count() == 2
    settings.conf.set("spark.paimon.*.db.t.scan.snapshot-id", "2")
    assert settings.read.format("paimon").load(table.path).count() == 2
    settings.conf.unset("spark.paimon.*.db.t.scan.snapshot-id")
    settings.conf.unset("spark.paimon.scan.tag-name")
    assert (now.count(), then.count()) == (2, 1)
    settings.conf.set("spark.paimon.scan.tagname", "one")
    with pytest.raises(PySparkException, match=r"Did you mean 'scan\.tag-name'"):
        settings.read.format("paimon").load(table.path)


@pytest.mark.thorough
@pytest.mark.spark
def test_writes_take_what_means_something_for_them(settings: SparkSession, table: PaimonTable) -> None:
    settings.conf.set("spark.paimon.scan.tag-name", "one")
    settings.conf.set("spark.paimon.file.format", "avro")
    settings.conf.set("spark.paimon.write.merge-schema", "true")
    more = settings.sql("SELECT 3 AS k, 'c' AS v, 1.5D AS w")
    more.write.format("paimon").mode("append").save(table.path)
    table.append(settings.sql("SELECT 4 AS k, 'd' AS v"))
    with pytest.raises(UnsupportedError, match="RESET"):
        table.delete("k = 1")
    new = str(Path(table.path).parent / f"n{next(_numbers)}")
    more.write.format("paimon").mode("append").save(new)
    settings.conf.unset("spark.paimon.scan.tag-name")
    assert sorted(tuple(row) for row in table.to_df().collect()) == [
        *((1, "a", None), (2, "b", None), (3, "c", 1.5), (4, "d", None))
    ]
    formats = {row[0].rpartition(".")[2] for row in table.files(columns="file_path").collect()}
    assert formats == {"parquet", "avro"}
    assert dict(load_table(new).schema.options) == {}  # what the session has set is not the table's


@pytest.mark.thorough
@pytest.mark.spark
def test_times_of_a_filter_are_times_of_the_session(settings: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "times")
    table = PaimonTable.create(settings, path, "at timestamp, k int", partition_by="at")
    settings.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    rows = settings.sql("SELECT TIMESTAMP '2024-01-01 09:00:00' AS at, 1 AS k")  # midnight in UTC
    table.append(rows)
    condition = "at = TIMESTAMP '2024-01-01 09:00:00'"
    assert table.to_df().where(condition).count() == 1
    assert table.to_df(filter=condition).count() == 1
    assert settings.read.format("paimon").option("filter", condition).load(path).count() == 1
    assert settings.read.format("paimon").option("filter", "at < '2024-01-01 08:59:59'").load(path).count() == 0
    table.append(rows)
    assert table.compact(where=condition.replace("09", "00"), compaction_min_file_num=2) is None
    assert table.compact(where=condition, compaction_min_file_num=2) is not None
    rows.write.format("paimon").mode("overwrite").option("replaceWhere", condition).save(path)
    assert table.to_df().count() == 1
    settings.conf.set("spark.sql.session.timeZone", "-03:00")
    assert table.to_df(filter=condition).count() == 0
    assert table.to_df(filter="at = '2023-12-31 21:00:00'").count() == 1


_ON_CONNECT = """
import sys
import paimon_spark
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", 1).getOrCreate()
table = paimon_spark.PaimonTable.for_path(spark, sys.argv[1])
spark.conf.set("spark.paimon.scan.tag-name", "one")
assert spark.read.format("paimon").load(table.path).count() == 1
assert table.to_df().count() == 1
spark.range(5, 6).selectExpr("CAST(id AS INT) AS k").write.format("paimon").mode("append").save(table.path)
spark.conf.unset("spark.paimon.scan.tag-name")
assert table.to_df().count() == 3
print("all is well")
"""


@pytest.mark.turns("connect")
@pytest.mark.spark
@pytest.mark.thorough
def test_a_connect_session_does_so_too(table: PaimonTable) -> None:
    done = subprocess.run([sys.executable, "-c", _ON_CONNECT, table.path], capture_output=True, text=True, check=False)
    assert "all is well" in done.stdout, done.stderr[-2000:]
