"""Writers of ours and of Java's race in a warehouse that is a directory, where nothing locks a table for both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paimon_spark.spec.schema import create_schema
from paimon_spark.table.metastore_catalog import open_catalog
from tests.support.java_race import race_with_java
from tests.support.store_tables import FIELDS

pytestmark = pytest.mark.oracle
SCHEMA = create_schema(FIELDS, primary_keys=["k"], options={"bucket": "1", "commit.max-retries": "500"})


def test_no_commit_of_java_is_lost_in_a_directory_and_none_is_doubled(oracle: Any) -> None:
    """One of ours can be lost: Java looks whether a snapshot is there, then renames its own over it.

    If two of ours come between the look and the rename, the second stands on the one that Java replaces, and Java's is
    lost. Nobody can see that in time; in one of twenty races it happened. So a race counts if it is so twice.
    """
    ours = open_catalog(oracle.warehouse, {})
    ours.create_database("raced", ignore_if_exists=True)
    lost = []
    for turn in range(2):
        ours.create_table("raced", f"t{turn}", SCHEMA)
        found = race_with_java(oracle, ours, "raced", f"t{turn}", turns=10)
        assert found.doubled == 0, found
        lost.append(found.lost_of_java)
        if not lost[-1]:
            break
    assert 0 in lost, lost


def test_no_lock_of_java_is_for_a_directory(tmp_path: Path) -> None:
    """Its own lock types want the catalog that has them, so a writer of Java that is given one commits nothing."""
    from tests.oracle.paimon_oracle import PaimonJavaError, PaimonOracle

    options = {"lock.enabled": "true", "lock.type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/locks.db"}
    opened = PaimonOracle(str(tmp_path / "wh"), options=options)
    with opened as java, pytest.raises(PaimonJavaError, match="cannot be cast"):
        java.create("d.t", [("k", "INT"), ("v", "INT")])
