"""Options of a catalog: what is not there is refused at once, by every entry point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import paimon_spark
from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.table.catalog_options import check_catalog_options

_REFUSED = [
    ({"metastore": "glue"}, UnsupportedError, "'metastore' = 'glue'"),
    ({"uri": "http://catalog:8080"}, UnsupportedError, "'uri'"),
    ({"table-default.buckets": "4"}, OptionError, "Did you mean 'bucket'"),
    ({"table-default.bucket": "many"}, OptionError, "bucket"),
    ({"table-default.scan.fallback-branch": "b", "table-default.uri": "x"}, OptionError, "is no option of a table"),
    ({"case-sensitive": "false"}, UnsupportedError, "'case-sensitive'"),
    ({"lock.enabled": "true"}, UnsupportedError, "'lock.enabled'"),
    ({"metastor": "rest"}, OptionError, "Did you mean 'metastore'"),
    ({"metasotre": "rest"}, OptionError, "Unknown option 'metasotre'"),
    ({"s3_endpoint": "x"}, OptionError, "Did you mean 's3.endpoint'"),
    ({"bucket": "4"}, OptionError, "'bucket' is no option of a catalog"),
    ({"cache-enabled": "perhaps"}, OptionError, "cache-enabled"),
]


@pytest.mark.parametrize(("options", "kind", "words"), _REFUSED)
def test_what_a_catalog_does_not_do_is_refused(options: dict[str, str], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        check_catalog_options(options)


def test_options_of_the_store_and_what_changes_nothing_are_taken() -> None:
    check_catalog_options(
        {
            **{"metastore": "FileSystem", "cache-enabled": "false", "cache.expire-after-access": "5 min"},
            **{"s3.endpoint": "x", "fs.s3a.access.key": "k", "fs.anon": "true", "default-database": "default"},
            **{"commit.unsafe-rename": "true"},
        }
    )


class _Session:
    """Stands for a classic session, of which nothing may be asked, but whether it is one."""

    def __getattr__(self, name: str) -> Any:
        if name == "createDataFrame":
            return None
        raise AssertionError(f"the session was asked for {name} before the options were looked at")


def test_both_entry_points_look_at_the_options_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session: Any = _Session()
    options: dict[str, Any] = {"metastore": "glue", "uri": "http://catalog:8080"}
    with pytest.raises(UnsupportedError, match="'metastore' = 'glue'"):
        paimon_spark.register_catalog(session, "p", warehouse=str(tmp_path / "wh"), **options)
    monkeypatch.setattr("paimon_spark.spark.text.statement.register", lambda spark: None)
    with pytest.raises(UnsupportedError, match="'metastore' = 'glue'"):
        paimon_spark.sql(session, "SELECT 1", warehouse=str(tmp_path / "wh"), **options)
    assert not (tmp_path / "wh").exists()
