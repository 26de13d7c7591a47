"""A hive-site.xml is read when it is new, and not again for each table."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from paimon_spark.metastore.hive_client import settings_of

_KEY = "hive.metastore.uris"


def test_a_site_is_read_once_as_long_as_it_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    parse = ElementTree.parse
    monkeypatch.setattr(ElementTree, "parse", lambda path: (reads.append(path), parse(path))[1])

    def site(value: str) -> None:
        entry = f"<property><name>{_KEY}</name><value>{value}</value></property>"
        (tmp_path / "hive-site.xml").write_text(f"<configuration>{entry}</configuration>")

    site("thrift://a:1")
    options = {"hive-conf-dir": str(tmp_path)}
    for _ in range(3):
        assert settings_of(options)[_KEY] == "thrift://a:1"
    assert len(reads) == 1
    settings_of({**options, "uri": "thrift://b:2"})
    assert settings_of(options)[_KEY] == "thrift://a:1"
    site("thrift://another:1")
    assert settings_of(options)[_KEY] == "thrift://another:1"
    assert len(reads) == 2
