"""A store's options in Hadoop's spelling: what has an equal there, and what is left to Python."""

from __future__ import annotations

from typing import Any

import pytest

from paimon_spark.storage.hadoop_options import dfs_host, file_system_class, hadoop_options
from paimon_spark.storage.store_options import FSSPEC_SCHEME, fsspec_options, scheme_of

S3A = "org.apache.hadoop.fs.s3a."
BOUNDS = {
    "connection.establish.timeout": "5000",
    "connection.timeout": "15000",
    "attempts.maximum": "1",
    "retry.limit": "1",
}
"""Of a store that does not answer."""


def settings(given: dict[str, str]) -> dict[str, str] | None:
    found = hadoop_options("s3", fsspec_options("s3", "s3://b/t", given), {"b"})
    if not found:
        return found
    of_all = {key.removeprefix("fs.s3a."): value for key, value in found.items() if ".bucket.b." not in key}
    of_one = {key.removeprefix("fs.s3a.bucket.b."): value for key, value in found.items() if ".bucket.b." in key}
    kept = {key: value for key, value in of_all.items() if "provider.path" in key}
    assert of_all == {**of_one, **kept}  # the session may have settings for this bucket, which count more
    assert set(kept.values()) <= {"user:///"}
    return of_one


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"s3.attempts.maximum": "3"}, {}),
        ({"s3.connection.maximum": "64"}, {}),
        ({"fs.s3a.connection.maximum": "500"}, {"connection.maximum": "500"}),
        ({"s3.region": "eu-west-1"}, {"endpoint.region": "eu-west-1"}),
        (
            {"s3.access-key": "k", "fs.s3a.secret.key": "s", "s3.endpoint": "h:1", "s3.path-style-access": "true"},
            {
                "access.key": "k",
                "secret.key": "s",
                "endpoint": "https://h:1",
                "path.style.access": "true",
                "aws.credentials.provider": f"{S3A}SimpleAWSCredentialsProvider",
            },
        ),
        (
            {"fs.key": "k", "fs.secret": "s", "fs.token": "t"},
            {
                "access.key": "k",
                "secret.key": "s",
                "session.token": "t",
                "aws.credentials.provider": f"{S3A}TemporaryAWSCredentialsProvider",
            },
        ),
        ({"fs.anon": "true"}, {"aws.credentials.provider": f"{S3A}AnonymousAWSCredentialsProvider"}),
        (
            {"s3.connection.timeout": "20 s", "s3.attempts.maximum": "2", "s3.connection.ssl.enabled": "false"},
            {"connection.timeout": "20000", "attempts.maximum": "2", "connection.ssl.enabled": "false"},
        ),
        ({"fs.profile": "work"}, None),
        ({"fs.config_kwargs": '{"proxies": {"http": "p"}}'}, None),
    ],
)
def test_options_of_s3(given: dict[str, str], expected: dict[str, Any] | None) -> None:
    assert settings(given) == (expected and BOUNDS | expected)


def of(path: str, given: dict[str, str]) -> dict[str, str] | None:
    scheme = FSSPEC_SCHEME.get(scheme_of(path), scheme_of(path))
    host = path.partition("://")[2].partition("/")[0]
    return hadoop_options(scheme, fsspec_options(scheme, path, given), {host})


@pytest.mark.parametrize(
    "path", ["gs://b/t", "oss://b/t", "hdfs://n:8020/t", "abfss://c@a.dfs.core.windows.net/t", "wasb://c@a.blob.x/t"]
)
def test_without_options_those_of_the_session_count(path: str) -> None:
    assert of(path, {}) == {}


def test_options_of_oss() -> None:
    given = {"fs.oss.endpoint": "e", "fs.oss.accessKeyId": "i", "oss.accessKeySecret": "s"}
    assert of("oss://b/t", given) == {
        "fs.oss.endpoint": "e",
        "fs.oss.accessKeyId": "i",
        "fs.oss.accessKeySecret": "s",
        "fs.oss.securityToken": "",  # one of the session's belongs to another key
        "fs.oss.credentials.provider": "",
        "fs.oss.connection.establish.timeout": "5000",
        "fs.oss.connection.timeout": "8000",
        "fs.oss.attempts.maximum": "1",
        "hadoop.security.credential.provider.path": "user:///",
    }
    assert of("oss://b/t", {"fs.oss.endpoint": "e", "fs.default_cache_type": "none"}) is None


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        ("anon", "UNAUTHENTICATED"),
        ("cloud", "COMPUTE_ENGINE"),
        ("/k.json", "SERVICE_ACCOUNT_JSON_KEYFILE"),
        ("x", None),
    ],
)
def test_options_of_google(token: str, kind: str | None) -> None:
    found = of("gs://b/t", {"fs.token": token, "gs.project.id": "p", "gs.storage.root.url": "http://h:1"})
    if kind is None:
        assert found is None
        return
    assert found
    assert found["fs.gs.auth.type"] == kind
    assert (found["fs.gs.project.id"], found["fs.gs.storage.root.url"]) == ("p", "http://h:1")
    assert found["fs.viewfs.mounttable.b.linkFallback"] == "gs://b/"
    assert int(found["fs.gs.http.max.retry"]) <= 2


def test_options_of_hdfs() -> None:
    found = of("hdfs://n:8020/t", {"hadoop.dfs.nameservices": "n"})
    assert found
    assert found["dfs.nameservices"] == "n"
    assert found["fs.viewfs.mounttable.n.linkFallback"] == "hdfs://n:8020/"


AZURE = "abfss://c@a.dfs.core.windows.net/t"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"fs.azure.account.key.a.dfs.core.windows.net": "k"}, {"account.auth.type": "SharedKey", "account.key": "k"}),
        ({"fs.sas_token": "s"}, {"account.auth.type": "SAS", "sas.fixed.token": "s"}),
        (
            {"fs.client_id": "i", "fs.client_secret": "s", "fs.tenant_id": "t"},
            {
                "account.auth.type": "OAuth",
                "account.oauth2.client.secret": "s",
                "account.oauth2.client.endpoint": "https://login.microsoftonline.com/t/oauth2/token",
            },
        ),
        (
            {"fs.connection_string": "AccountName=a;AccountKey=k=;EndpointSuffix=core.windows.net"},
            {"account.key": "k="},
        ),
    ],
)
def test_options_of_azure(given: dict[str, str], expected: dict[str, str]) -> None:
    found = of(AZURE, given)
    assert found
    for suffix in ("", ".a.dfs.core.windows.net", ".c.a.dfs.core.windows.net"):  # the session may have any of them
        assert {key: found[f"fs.azure.{key}{suffix}"] for key in expected} == expected
    assert found["hadoop.security.credential.provider.path"] == "user:///"
    assert (found["fs.azure.io.retry.max.retries"], found["fs.azure.http.read.timeout"]) == ("2", "8000")
    assert "fs.azure.abfs.endpoint" not in found
    assert file_system_class("abfs", found).endswith(".SecureAzureBlobFileSystem")


def test_an_account_of_azure_in_another_cloud() -> None:
    found = of("abfss://c@a.dfs.core.chinacloudapi.cn/t", {"fs.azure.account.key": "k"})
    assert found
    assert found["fs.azure.account.key.a.dfs.core.chinacloudapi.cn"] == "k"
    assert "fs.azure.abfs.endpoint" not in found


def test_an_emulator_of_azure() -> None:
    text = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=k;BlobEndpoint=http://127.0.0.1:1/a;"
    found = of(AZURE, {"fs.connection_string": text, "fs.read_timeout": "3"})
    assert found
    assert found["fs.azure.abfs.endpoint"] == "127.0.0.1:1"
    assert found["fs.azure.http.read.timeout"] == "3000"
    assert file_system_class("abfs", found).endswith(".AzureBlobFileSystem")


@pytest.mark.parametrize(
    "given",
    [
        {"fs.anon": "true"},
        {"fs.account_name": "other"},
        {"fs.connection_string": "AccountName=a;AccountKey=k;BlobEndpoint=https://elsewhere/"},
        {"fs.connection_string": "AccountName=other;AccountKey=k"},
        {"fs.blocksize": "5"},
    ],
)
def test_options_of_azure_that_hadoop_has_not(given: dict[str, str]) -> None:
    assert of(AZURE, given) is None


def test_the_blobs_of_an_account_are_read_at_its_other_host() -> None:
    assert dfs_host("a.blob.core.windows.net") == "a.dfs.core.windows.net"
    assert dfs_host("a.dfs.core.windows.net") == "a.dfs.core.windows.net"
    assert dfs_host("blob.x") == "blob.x"
