"""What a session's Hadoop configuration says about a store is the default of our options, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.storage import session_stores
from paimon_spark.storage.file_io import FileIO, FsspecFileIO
from paimon_spark.storage.hadoop_options import hadoop_options
from paimon_spark.storage.store_errors import translated
from paimon_spark.storage.store_options import fsspec_options

KEYS = {"fs.s3a.access.key": "of-session", "fs.s3a.secret.key": "hidden-one"}
HADOOP = "org.apache.hadoop.fs.s3a."
Store = Callable[..., FsspecFileIO]


@pytest.fixture
def store() -> Iterator[Store]:
    """Opens a store in a session with settings."""

    def opened(path: str, settings: Mapping[str, str], **given: str) -> FsspecFileIO:
        def ask(prefixes: Sequence[str], _stores: str | None, _secrets: Sequence[str]) -> Mapping[str, str]:
            return {key: value for key, value in settings.items() if key.startswith(tuple(prefixes))}

        session_stores.follow(ask)
        found = FileIO.for_path(path, given)
        assert isinstance(found, FsspecFileIO)
        return found

    before = list(session_stores._ask)
    yield opened
    session_stores._ask[:] = before


def options_of(file_io: FsspecFileIO) -> dict[str, Any]:
    return {key: value for key, value in file_io.storage_options.items() if key != "config_kwargs"}


def test_settings_of_s3_are_defaults_and_options_win(store: Store) -> None:
    settings = {
        **KEYS,
        "fs.s3a.endpoint": "minio:9000",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.threads.max": "9",
        "fs.s3a.attempts.maximum": "20",
        "fs.s3a.bucket.other.access.key": "of-other",
    }
    plain = store("s3a://b/x", settings)
    assert options_of(plain) == {
        "key": "of-session",
        "secret": "hidden-one",
        "endpoint_url": "http://minio:9000",
        "use_ssl": False,
    }
    assert plain.storage_options["config_kwargs"]["s3"] == {"addressing_style": "path"}
    assert plain.storage_options["config_kwargs"]["retries"]["total_max_attempts"] == 3, "bounds stay ours"
    assert "hidden-one" not in repr(plain)
    assert "hidden-one" in plain.secrets()
    assert plain.session is not None
    assert hadoop_options("s3", plain.session.given, ["b"]) == {}, "the JVM has it all"
    given = store("s3://b/x", {**settings, "fs.s3a.session.token": "t"}, **{"s3.access-key": "a", "s3.secret-key": "b"})
    assert options_of(given) == {**options_of(plain), "key": "a", "secret": "b"}, "and no token of the session"
    assert options_of(store("gs://b/x", settings)) == {}


def test_settings_of_a_bucket_win(store: Store) -> None:
    settings = {
        **KEYS,
        "fs.s3a.endpoint": "all:1",
        "fs.s3a.bucket.b.endpoint": "http://own:2",
        "fs.s3a.bucket.b.access.key": "own",
    }
    own = {"key": "own", "secret": "hidden-one", "endpoint_url": "http://own:2"}
    assert options_of(store("s3a://b/x", settings)) == own
    given = fsspec_options("s3", "s3a://b/x", settings)
    assert {key: given[key] for key in own} == own, "as options too"


@pytest.mark.parametrize(
    ("endpoint", "found"),
    [
        ("s3.amazonaws.com", {}),
        ("https://s3.eu-west-1.amazonaws.com", {"client_kwargs": {"region_name": "eu-west-1"}}),
        ("", {}),
    ],
)
def test_endpoints_of_amazon_are_left_to_botocore(store: Store, endpoint: str, found: dict[str, Any]) -> None:
    assert options_of(store("s3a://b/x", {"fs.s3a.endpoint": endpoint})) == found


ROLE = {"fs.s3a.assumed.role.arn": "arn:aws:iam::1:role/r", "fs.s3a.assumed.role.session.duration": "15m"}
PROVIDERS: list[tuple[str, dict[str, Any]]] = [
    (f"{HADOOP}SimpleAWSCredentialsProvider", {"key": "of-session", "secret": "hidden-one"}),
    (f"{HADOOP}TemporaryAWSCredentialsProvider", {}),  # there is no token
    (
        f"{HADOOP}TemporaryAWSCredentialsProvider,\n {HADOOP}SimpleAWSCredentialsProvider",
        {"key": "of-session", "secret": "hidden-one"},
    ),
    (f"{HADOOP}AnonymousAWSCredentialsProvider", {"anon": True}),
    (f"{HADOOP}auth.IAMInstanceCredentialsProvider", {}),
    ("com.amazonaws.auth.InstanceProfileCredentialsProvider", {}),
    ("com.amazonaws.auth.DefaultAWSCredentialsProviderChain", {}),
    ("software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider", {}),
    ("com.amazonaws.auth.WebIdentityTokenCredentialsProvider", {}),
    (
        "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider,"
        f"{HADOOP}SimpleAWSCredentialsProvider",
        {"key": "of-session", "secret": "hidden-one"},
    ),
    (
        f"{HADOOP}auth.AssumedRoleCredentialProvider",
        {
            "assumed_role": {
                "arn": "arn:aws:iam::1:role/r",
                "duration": 900,
                "key": "of-session",
                "secret": "hidden-one",
            }
        },
    ),
]


@pytest.mark.parametrize(("provider", "found"), PROVIDERS, ids=lambda value: str(value)[-40:])
def test_providers_with_an_equal(
    store: Store, monkeypatch: pytest.MonkeyPatch, provider: str, found: dict[str, Any]
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    settings = {**KEYS, **ROLE, "fs.s3a.aws.credentials.provider": provider}
    assert options_of(store("s3a://b/x", settings)) == found
    given = fsspec_options("s3", "s3a://b/x", settings)
    assert {key: value for key, value in given.items() if key != "config_kwargs"} == found, "given as options"


def test_a_provider_that_only_java_has(store: Store) -> None:
    provider = {"fs.s3a.aws.credentials.provider": "com.example.Vault"}
    with pytest.raises(UnsupportedError, match=r"'fs\.s3a\.aws\.credentials\.provider' is com\.example\.Vault"):
        fsspec_options("s3", "s3a://b/x", provider)
    found = store("s3a://b/x", provider)
    assert options_of(found) == {}, "botocore's own chain, as without the setting"
    assert found.session is not None
    error = translated(PermissionError("no"), "s3a://b/x", (), found.session.hint)
    assert "The session's 'fs.s3a.aws.credentials.provider' is com.example.Vault, which only Java has" in str(error)
    assert "credential_process" in str(error)
    given = store("s3a://b/x", provider, **{"s3.access-key": "a", "s3.secret-key": "b"})
    assert given.session is not None
    assert given.session.hint == ""


def test_a_role_without_its_name(store: Store) -> None:
    provider = {"fs.s3a.aws.credentials.provider": f"{HADOOP}auth.AssumedRoleCredentialProvider"}
    with pytest.raises(OptionError, match=r"fs\.s3a\.assumed\.role\.arn"):
        fsspec_options("s3", "s3a://b/x", provider)
    found = store("s3a://b/x", provider)
    assert found.session is not None
    assert "assumed.role.arn" in found.session.hint


def test_what_is_sent_with_each_request(store: Store) -> None:
    settings = {
        "fs.s3a.requester.pays.enabled": "true",
        "fs.s3a.encryption.algorithm": "SSE-KMS",
        "fs.s3a.encryption.key": "arn:key",
    }
    assert options_of(store("s3a://b/x", settings)) == {
        "requester_pays": True,
        "s3_additional_kwargs": {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "arn:key"},
    }
    assert options_of(store("s3a://b/x", {"fs.s3a.encryption.algorithm": "SSE-C"})) == {}


def test_settings_of_google(store: Store, tmp_path: Path) -> None:
    keyfile = tmp_path / "keys.json"
    keyfile.write_text(json.dumps({"type": "service_account", "private_key": "hidden-two"}))
    found = store(
        "gs://b/x",
        {"fs.gs.auth.service.account.json.keyfile": str(keyfile), "fs.gs.project.id": "p", "fs.gs.auth.type": ""},
    )
    assert options_of(found) == {"project": "p", "token": json.loads(keyfile.read_text())}, "as the driver read it"
    assert "hidden-two" in found.secrets()
    assert options_of(store("gs://b/x", {"fs.gs.auth.type": "UNAUTHENTICATED"})) == {"token": "anon"}
    assert options_of(store("gs://b/x", {"google.cloud.auth.type": "COMPUTE_ENGINE"})) == {"token": "cloud"}
    emulator = {"fs.gs.storage.root.url": "http://localhost:1/", "fs.gs.auth.null.enable": "true"}
    assert options_of(store("gs://b/x", emulator)) == {"endpoint_url": "http://localhost:1", "token": "anon"}
    private = {
        "fs.gs.auth.service.account.email": "a@b",
        "fs.gs.auth.service.account.private.key": "hidden\\nthree",
        "fs.gs.auth.service.account.private.key.id": "1",
    }
    assert options_of(store("gs://b/x", private))["token"]["private_key"] == "hidden\nthree"
    java = store("gs://b/x", {"fs.gs.auth.type": "ACCESS_TOKEN_PROVIDER"})
    assert java.session is not None
    assert "ACCESS_TOKEN_PROVIDER, which only Java has" in java.session.hint
    assert options_of(store("gs://b/x", emulator, **{"fs.token": "mine"}))["token"] == "mine"


def test_settings_of_azure(store: Store) -> None:
    path, host = "abfss://c@acc.dfs.core.windows.net/x", "acc.dfs.core.windows.net"
    settings = {
        "fs.azure.account.key.other.dfs.core.windows.net": "not-mine",
        f"fs.azure.account.key.{host}": "hidden-four",
        f"fs.azure.account.oauth2.client.id.{host}": "id",
        f"fs.azure.account.oauth2.client.secret.{host}": "hidden-five",
        f"fs.azure.account.oauth2.client.endpoint.{host}": "https://login.microsoftonline.com/tenant/oauth2/token",
        "fs.azure.account.oauth2.client.endpoint.other.dfs.core.windows.net": "https://l/of-other/oauth2/token",
    }
    kind = f"fs.azure.account.auth.type.{host}"
    oauth = {"client_id": "id", "client_secret": "hidden-five", "tenant_id": "tenant"}
    assert options_of(store(path, settings)) == {"account_name": "acc", "account_key": "hidden-four", **oauth}
    assert options_of(store(path, {**settings, kind: "OAuth"})) == {"account_name": "acc", **oauth}
    shared = {"account_name": "acc", "account_key": "hidden-four"}
    assert options_of(store(path, {**settings, kind: "SharedKey"})) == shared
    sas = store(path, settings, **{f"fs.azure.sas.fixed.token.{host}": "sig"})
    assert options_of(sas) == {"account_name": "acc", "sas_token": "sig"}, "one way to credentials alone"
    provider = "fs.azure.account.oauth.provider.type"
    emulated = {**settings, kind: "SharedKey", "fs.azure.abfs.endpoint": "h:1", "fs.azure.always.use.https": "false"}
    address = "DefaultEndpointsProtocol=http;AccountName=acc;AccountKey=hidden-four;BlobEndpoint=http://h:1/acc;"
    assert options_of(store(path, emulated)) == {**shared, "connection_string": address}
    machine = {kind: "OAuth", provider: "org.apache.hadoop.fs.azurebfs.oauth2.MsiTokenProvider"}
    assert options_of(store(path, machine)) == {"account_name": "acc", "anon": False}
    custom = store(path, {**settings, kind: "Custom", provider: "com.example.Tokens"})
    assert custom.session is not None
    assert "CUSTOM with Tokens, which only Java has" in custom.session.hint


def test_settings_of_hdfs(store: Store) -> None:
    settings = {
        "dfs.nameservices": "ns",
        "dfs.ha.namenodes.ns": "a,b",
        "dfs.namenode.rpc-address.ns.a": "h1:8020",
        "fs.s3a.access.key": "no",
    }
    found = store("hdfs://ns/x", settings, **{"hadoop.dfs.namenode.rpc-address.ns.b": "h2:8020"})
    config = {key: value for key, value in settings.items() if key.startswith("dfs.")}
    assert found.storage_options == {"config": {**config, "dfs.namenode.rpc-address.ns.b": "h2:8020"}}
    assert store("hdfs://ns/x", settings).session == session_stores.SessionStore({"config": config}, {}, "")


def test_settings_of_oss(store: Store) -> None:
    settings = {"fs.oss.accessKeyId": "id", "fs.oss.accessKeySecret": "hidden-six", "fs.oss.endpoint": "e"}
    found = {"key": "id", "secret": "hidden-six", "endpoint": "e"}
    assert options_of(store("oss://b/x", {**settings, "fs.oss.impl": "a.Class"})) == found
    token = store("oss://b/x", settings, **{"fs.oss.accessKeyId": "a", "fs.oss.accessKeySecret": "b"})
    assert options_of(token) == {"key": "a", "secret": "b", "endpoint": "e"}
