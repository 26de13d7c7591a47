"""Hive metastores that speak TLS: certificates that are trusted, and those that are not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from conftest import absent
from paimon_spark.errors import OptionError
from paimon_spark.metastore import hive_client
from paimon_spark.metastore.hive_client import HiveClient, HiveGoneError, address_of, settings_of
from paimon_spark.table.filesystem_catalog import check_catalog_options
from paimon_spark.table.metastore_catalog import open_catalog
from tests.support.hive_server import HiveServer, hive_server
from tests.support.kerberos import REALM, own_kdc


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key of the metastore as Java keeps it, its certificate, and one of somebody else."""
    found = tmp_path_factory.mktemp("tls")
    for name in ("server", "stranger"):
        store = ["-storetype", "PKCS12", "-keystore", f"{found}/{name}.p12", "-storepass", "changeit", "-alias", "a"]
        made = ["-genkeypair", "-keyalg", "RSA", "-dname", f"CN={name}", "-ext", "san=ip:127.0.0.1"]
        for command in (made, ["-exportcert", "-rfc", "-file", f"{found}/{name}.pem"]):
            try:
                subprocess.run(["keytool", *command, *store], check=True, capture_output=True)
            except OSError:
                absent("keytool of Java")
    return found


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HiveServer]:
    with ExitStack() as started:
        try:
            found = started.enter_context(hive_server(keystore=f"{folder}/server.p12"))
        except (OSError, RuntimeError) as error:
            absent(f"Hive's metastore ({' '.join(str(error).split())[:300]})")
        yield found


@pytest.fixture
def options(server: HiveServer, folder: Path) -> dict[str, str]:
    return {
        "metastore": "hive",
        "uri": server.uri,
        "hive.metastore.use.SSL": "true",
        "hive.metastore.truststore.path": f"{folder}/server.pem",
    }


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hive_client, "_ROUNDS", 1)
    monkeypatch.setattr(hive_client, "NEGOTIATION_SECONDS", 5.0)


def _names(options: dict[str, str]) -> list[str]:
    return list(HiveClient(address_of(settings_of(options))).call("get_all_databases"))


def test_a_certificate_that_is_trusted(options: dict[str, str], tmp_path: Path) -> None:
    for given in (options, {key.lower(): text for key, text in options.items()}):
        check_catalog_options(given)
        catalog = open_catalog(str(tmp_path), given)
        catalog.create_database("d")
        assert catalog.databases() == ["d", "default"]
        catalog.drop_database("d")


def test_a_certificate_that_is_not_trusted(options: dict[str, str], folder: Path) -> None:
    for trusted in (f"{folder}/stranger.pem", ""):
        with pytest.raises(HiveGoneError, match=r"certificate verify failed.* See that .*truststore.path"):
            _names({**options, "hive.metastore.truststore.path": trusted})
    with pytest.raises(HiveGoneError, match=r"certificate verify failed.*localhost"):
        _names({**options, "uri": options["uri"].replace("127.0.0.1", "localhost")})


def test_a_trust_store_of_java(options: dict[str, str], folder: Path) -> None:
    with pytest.raises(OptionError, match=r"cannot be read as a PEM file .* keytool -list -rfc"):
        _names({**options, "hive.metastore.truststore.path": f"{folder}/server.p12"})


def test_one_side_alone(options: dict[str, str], hive: HiveServer) -> None:
    with pytest.raises(HiveGoneError, match=r"if it wants TLS, 'hive.metastore.use.SSL' = 'true'"):
        _names({"uri": options["uri"]})
    with pytest.raises(HiveGoneError, match="See that it speaks TLS"):
        _names({**options, "uri": hive.uri})


def test_with_kerberos(folder: Path) -> None:
    with own_kdc() as kdc, hive_server(kdc=kdc, keystore=f"{folder}/server.p12") as server:
        options = {
            "uri": server.uri,
            "hive.metastore.use.SSL": "true",
            "hive.metastore.truststore.path": f"{folder}/server.pem",
            "hive.metastore.sasl.enabled": "true",
            "hive.metastore.kerberos.principal": f"hive/_HOST@{REALM}",
            "security.kerberos.login.principal": f"alice@{REALM}",
            "security.kerberos.login.keytab": kdc.keytab(f"alice@{REALM}"),
        }
        assert _names(options) == ["default"]
