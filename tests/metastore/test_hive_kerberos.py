"""Hive metastores that want Kerberos, with a KDC of this machine: who may ask, how messages are protected, faults."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.errors import OptionError, PaimonError
from paimon_spark.metastore import hive_client, hive_sasl
from paimon_spark.metastore.hive import HiveMetastore
from paimon_spark.metastore.hive_client import HiveClient, HiveGoneError, address_of, settings_of
from paimon_spark.metastore.hive_sasl import HiveLoginError
from paimon_spark.spec.schema import create_schema
from paimon_spark.table.filesystem_catalog import check_catalog_options
from paimon_spark.table.metastore_catalog import MetastoreCatalog, open_catalog
from tests.support.connect_server import connect_server
from tests.support.hive_server import HiveProxy, HiveServer, hive_proxy, hive_server
from tests.support.kerberos import REALM, Kdc, own_kdc
from tests.support.programs import run_program
from tests.support.store_tables import FIELDS, insert, rows_of

ROOT = Path(__file__).resolve().parents[2]
ALICE = f"alice@{REALM}"
SERVICE = f"hive/_HOST@{REALM}"


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc]:
    """A KDC, whose tickets the processes of the tests find."""
    with own_kdc() as found:
        yield found


@pytest.fixture(scope="module")
def server(kdc: Kdc) -> Iterator[HiveServer]:
    """A metastore that lets its clients choose the protection."""
    with hive_server(kdc=kdc, hadoop={"hadoop.rpc.protection": "authentication,integrity,privacy"}) as found:
        yield found


@pytest.fixture
def proxy(server: HiveServer) -> Iterator[HiveProxy]:
    with hive_proxy(server) as found:
        yield found


@pytest.fixture
def asked(proxy: HiveProxy) -> dict[str, str]:
    """Options of a catalog without a login: tickets come from the cache, which is empty."""
    return {
        "metastore": "hive",
        "uri": proxy.uri,
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": SERVICE,
    }


@pytest.fixture
def options(asked: dict[str, str], kdc: Kdc) -> dict[str, str]:
    """Options of a catalog that logs in by a keytab."""
    return {**asked, **_login(kdc, ALICE)}


@pytest.fixture
def tickets(kdc: Kdc) -> Iterator[Kdc]:
    """The ticket cache, which is empty at the end."""
    yield kdc
    kdc.log_out()


def _login(kdc: Kdc, principal: str) -> dict[str, str]:
    return {
        "security.kerberos.login.principal": principal,
        "security.kerberos.login.keytab": kdc.keytab(principal),
    }


def _client(options: dict[str, str]) -> HiveClient:
    return HiveClient(address_of(settings_of(options)))


def _layer(client: HiveClient) -> str:
    """How messages of this thread's connection are protected."""
    stubs: Any = client._connection()
    return str(stubs._iprot.trans._layer)


def _names(client: HiveClient) -> list[str]:
    return list(client.call("get_all_databases"))


@pytest.mark.parametrize(
    ("wanted", "layer"),
    [(None, "auth"), ("auth", "auth"), ("auth-int", "auth-int"), ("auth-conf,auth", "auth-conf")],
)
def test_a_table_is_made_written_and_read(
    tmp_path: Path, options: dict[str, str], proxy: HiveProxy, wanted: str | None, layer: str
) -> None:
    if wanted is not None:
        options |= {"hive.metastore.thrift.sasl.qop": wanted}
    options |= {"lock.enabled": "true"}
    check_catalog_options(options)
    catalog = open_catalog(str(tmp_path / "wh"), options)
    assert isinstance(catalog, MetastoreCatalog)
    assert isinstance(catalog.metastore, HiveMetastore)
    catalog.create_database("d")
    try:
        long = {f"of.user.{n}": "x" * 2000 for n in range(100)}  # more than one message of 64 kB
        catalog.create_table("d", "t", create_schema(FIELDS, primary_keys=["k"], options={"bucket": "1", **long}))
        insert(catalog.load_table("d", "t"), {1: 10})
        proxy.cut()
        insert(catalog.load_table("d", "t"), {2: 20})
        assert rows_of(catalog.load_table("d", "t")) == {1: 10, 2: 20}
        found = catalog.metastore.table("d", "t")
        assert (found.owner, found.parameters["of.user.99"]) == ("alice", "x" * 2000)
        assert _layer(catalog.metastore.client) == layer
        assert proxy.taken() == []  # no call can be seen as plain Thrift
    finally:
        catalog.drop_database("d", cascade=True)


def test_the_layer_that_the_server_demands(kdc: Kdc) -> None:
    with hive_server(kdc=kdc, hadoop={"hadoop.rpc.protection": "privacy"}) as server:
        options = {
            "uri": server.uri,
            "hive.metastore.sasl.enabled": "true",
            "hive.metastore.kerberos.principal": SERVICE,
            **_login(kdc, ALICE),
        }
        client = _client(options)
        assert _names(client) == ["default"]
        assert _layer(client) == "auth-conf"
        with pytest.raises(HiveLoginError, match=r"offers the SASL protection auth-conf, and .* allows auth only"):
            _names(_client({**options, "hive.metastore.thrift.sasl.qop": "auth"}))


def test_tickets_of_the_cache(asked: dict[str, str], tickets: Kdc) -> None:
    client = _client(asked)
    with pytest.raises(HiveLoginError, match=r"There is no Kerberos ticket .* Run kinit"):
        _names(client)
    with pytest.raises(HiveLoginError, match="There is no Kerberos ticket"):
        _ = client.user
    tickets.log_in(f"bob/admin@{REALM}")
    assert "default" in _names(client)
    assert client.user == "bob"


def _wait_for_the_end(kdc: Kdc, principal: str) -> None:
    """Until a ticket has ended that the KDC gives now: one that it gave before has ended by then, too."""
    name = {"KRB5CCNAME": f"FILE:{kdc.folder}/another"}
    apart = Kdc(kdc.folder, {**kdc.environment, **name})
    apart.log_in(principal)
    while apart.has_tickets():
        time.sleep(0.2)
    apart.log_out()


def test_tickets_that_end(asked: dict[str, str], tickets: Kdc, proxy: HiveProxy) -> None:
    """A ticket of the cache ends the work, at the next connection; a keytab brings new ones."""
    brief = f"brief@{REALM}"
    tickets.keytab(brief)
    tickets.administer(f"modprinc -maxlife 3sec {brief}")
    tickets.log_in(brief)
    for_ever = {**asked, "hive.metastore.thrift.sasl.qop": "auth-conf"}
    cached, renewed = _client(for_ever), _client({**for_ever, **_login(tickets, brief)})
    assert "default" in _names(renewed)
    assert "default" in _names(cached)
    _wait_for_the_end(tickets, brief)
    proxy.cut()
    with pytest.raises(HiveLoginError, match=r"There is no Kerberos ticket .*expired.* Run kinit"):
        _names(cached)
    assert "default" in _names(renewed)


def test_a_keytab_outlives_its_tickets_without_a_new_connection(options: dict[str, str], kdc: Kdc) -> None:
    brief = f"short@{REALM}"
    login = _login(kdc, brief)
    kdc.administer(f"modprinc -maxlife 3sec {brief}")
    for layer in ("auth", "auth-conf"):
        client = _client({**options, **login, "hive.metastore.thrift.sasl.qop": layer})
        assert "default" in _names(client)
        _wait_for_the_end(kdc, brief)
        assert "default" in _names(client)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"hive.metastore.kerberos.principal": f"nobody/_HOST@{REALM}"}, "not found in Kerberos database.* principal"),
        ({"hive.metastore.kerberos.principal": f"other/_HOST@{REALM}"}, "refuses the Kerberos login.* principal"),
        ({"security.kerberos.login.principal": f"unknown@{REALM}"}, "gives unknown@.* no key of that principal"),
        ({"security.kerberos.login.keytab": "/nowhere"}, "'/nowhere' is no file that can be read"),
    ],
)
def test_logins_that_fail(options: dict[str, str], kdc: Kdc, changed: dict[str, str], message: str) -> None:
    kdc.keytab(f"other/127.0.0.1@{REALM}")
    with pytest.raises(HiveLoginError, match=message) as raised:
        _names(_client({**options, **changed}))
    assert "\n" not in str(raised.value)


def test_a_user_that_the_kdc_does_not_know(options: dict[str, str], kdc: Kdc) -> None:
    gone = _login(kdc, f"gone@{REALM}")
    kdc.administer(f"delprinc -force gone@{REALM}")
    with pytest.raises(HiveLoginError, match=r"no Kerberos ticket: Client 'gone@.*' not found in Kerberos database"):
        _names(_client({**options, **gone}))


def test_a_kdc_that_is_gone(options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Path(os.environ["KRB5_CONFIG"]).read_text(encoding="utf-8").splitlines()
    lines = ["kdc = 127.0.0.1:1" if "kdc =" in line else line for line in lines]
    (tmp_path / "krb5.conf").write_text("\n".join(lines))
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    keytab = tmp_path / "a.keytab"
    keytab.write_bytes(Path(options["security.kerberos.login.keytab"]).read_bytes())
    with pytest.raises(HiveLoginError, match="no Kerberos ticket: Cannot contact any KDC"):
        _names(_client({**options, "security.kerberos.login.keytab": str(keytab)}))


def test_a_client_without_kerberos(server: HiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hive_client, "_PAUSE_SECONDS", 0)
    with pytest.raises(HiveGoneError, match=r"cannot be reached.* If it wants Kerberos, set 'hive.metastore.sasl"):
        _names(_client({"uri": server.uri}))


def test_a_metastore_without_kerberos(
    options: dict[str, str], hive: HiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hive_client, "_ROUNDS", 1)
    monkeypatch.setattr(hive_sasl, "NEGOTIATION_SECONDS", 2.0)
    with pytest.raises(HiveGoneError, match=r"cannot be reached.* If it takes plain Thrift, remove 'hive.metastore.sa"):
        _names(_client({**options, "uri": hive.uri}))


def test_a_metastore_that_restarts(options: dict[str, str], proxy: HiveProxy) -> None:
    client = _client(options)
    assert "default" in _names(client)
    proxy.cut()
    assert "default" in _names(client)
    proxy.is_gone = True
    proxy.cut()
    with pytest.raises(HiveGoneError):
        _names(client)
    proxy.is_gone = False
    assert "default" in _names(client)


def test_without_the_package(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(PaimonError, match=r"Kerberos needs the package gssapi: pip install .*gssapi"):
        _names(_client(options))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"hive.metastore.kerberos.principal": ""}, "needs the principal of the metastore"),
        ({"hive.metastore.kerberos.principal": "hive"}, "needs the principal of the metastore"),
        ({"security.keytab": ""}, "Set both of"),
        ({"hive.metastore.thrift.sasl.qop": "secret"}, "values are auth, auth-int, auth-conf"),
    ],
)
def test_options_that_lead_nowhere(changed: dict[str, str], message: str) -> None:
    options = {
        "uri": "thrift://h",
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": SERVICE,
        "security.principal": ALICE,  # the older keys
        "security.keytab": "/k",
    }
    assert address_of(settings_of(options)).login is not None
    with pytest.raises(OptionError, match=message):
        address_of(settings_of({**options, **changed}))
    kept = {key: text for key, text in options.items() if not key.startswith("security.")}
    with pytest.raises(OptionError, match="leaves no way to log in"):
        address_of(settings_of({**kept, "security.kerberos.login.use-ticket-cache": "false"}))


def test_hive_site_says_it(tmp_path: Path, server: HiveServer, tickets: Kdc) -> None:
    entries = {
        "hive.metastore.uris": server.uri,
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": SERVICE,
        "hadoop.rpc.protection": "privacy",
    }
    text = "".join(f"<property><name>{key}</name><value>{value}</value></property>" for key, value in entries.items())
    (tmp_path / "hive-site.xml").write_text(f"<configuration>{text}</configuration>")
    tickets.log_in(ALICE)
    client = _client({"hive-conf-dir": str(tmp_path)})
    assert "default" in _names(client)
    assert _layer(client) == "auth-conf"


@pytest.mark.spark
def test_statements_on_a_classic_session(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], tickets: Kdc
) -> None:
    """With options; and with the settings of Spark's own metastore, tickets coming from the cache."""
    session = spark.newSession()
    paimon_spark.register_catalog(session, "k", warehouse=str(tmp_path / "wh"), **options)
    session.sql("CREATE DATABASE k.d")
    try:
        session.sql("CREATE TABLE k.d.t (id INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'id')")
        session.sql("INSERT INTO k.d.t VALUES (1, 'a'), (2, 'b')")
        session.sql("UPDATE k.d.t SET v = 'x' WHERE id = 1")
        assert sorted(map(tuple, session.table("k.d.t").collect())) == [(1, "x"), (2, "b")]
        for key in ("uris", "sasl.enabled", "kerberos.principal"):
            name = f"hive.metastore.{key}"
            session.conf.set(f"spark.hadoop.{name}", options.get(name, options["uri"]))
        tickets.log_in(ALICE)
        found = paimon_spark.sql(session, "SHOW TABLES IN d", warehouse=str(tmp_path / "wh"), metastore="hive")
        assert [row.tableName for row in found.collect()] == ["t"]
    finally:
        session.sql("DROP DATABASE k.d CASCADE")
        paimon_spark.register(spark)


@pytest.mark.turns("connect")
@pytest.mark.thorough
def test_statements_on_connect(tmp_path: Path, options: dict[str, str]) -> None:
    options |= {"warehouse": str(tmp_path / "wh"), "lock.enabled": "true"}
    program = [sys.executable, "-X", "faulthandler", "-m", "tests.spark.connect_catalogs_program"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with connect_server(tmp_path) as url:
        done = run_program([*program, url, json.dumps({"hive": options})], tmp_path, environment)
    assert (done.code, done.out.split()) == (0, ["hive"]), done.err
