import logging

import pytest

from paimon_spark.errors import OptionError, UnsupportedError
from paimon_spark.storage.file_io import FileIO, FsspecFileIO
from paimon_spark.storage.store_options import (
    fsspec_options,
    redact,
    scheme_of,
    secret_values,
    store_of,
    store_options,
)

BOUNDS = fsspec_options("s3", "s3://x", {})["config_kwargs"]


@pytest.mark.parametrize(
    ("path", "scheme"),
    [
        ("/a/b", ""),
        ("a:b", ""),
        ("C:\\x", ""),
        ("file:/a", "file"),
        ("FILE:///a", "file"),
        ("s3a://b/x", "s3a"),
        ("hdfs://h:1/x", "hdfs"),
        ("hdfs:/x", "hdfs"),
        ("s3a:", "s3a"),
        ("C:", ""),
    ],
)
def test_schemes(path: str, scheme: str) -> None:
    assert scheme_of(path) == scheme


def test_paimon_and_hadoop_spellings_become_fsspecs() -> None:
    paimon = {
        "s3.endpoint": "minio:9000",
        "s3.access-key": "a",
        "s3.secret-key": "b",
        "s3.path.style.access": "true",
        "s3.region": "r",
        "fs.s3a.connection.ssl.enabled": "false",
    }
    assert fsspec_options("s3", "s3://x", paimon) == {
        "key": "a",
        "secret": "b",
        "endpoint_url": "http://minio:9000",
        "use_ssl": False,
        "client_kwargs": {"region_name": "r"},
        "config_kwargs": {"s3": {"addressing_style": "path"}, **BOUNDS},
    }
    hadoop = {
        "fs.s3a.access.key": "a",
        "fs.s3a.secret.key": "b",
        "fs.s3a.session.token": "t",
        "fs.s3a.threads.max": "9",
    }
    assert fsspec_options("s3", "s3a://x", hadoop) == {
        "key": "a",
        "secret": "b",
        "token": "t",
        "config_kwargs": BOUNDS,
    }


def test_fsspecs_own_options_come_behind_fs() -> None:
    given = {
        "fs.anon": "true",
        "fs.client_kwargs": '{"verify": false}',
        "fs.client_kwargs.region_name": "r",
        "fs.default_block_size": "1048576",
        "fs.key": "12345",
        "fs.gs.project.id": "p",
    }
    assert fsspec_options("s3", "s3://x", given) == {
        "anon": True,
        "client_kwargs": {"verify": False, "region_name": "r"},
        "default_block_size": 1_048_576,
        "key": "12345",
        "config_kwargs": BOUNDS,
    }


def test_azure_takes_the_account_from_the_path() -> None:
    path = "abfss://c@acc.dfs.core.windows.net/x"
    key = {"fs.azure.account.key.acc.dfs.core.windows.net": "k", "fs.azure.account.key.other.dfs.core.windows.net": "n"}
    assert fsspec_options("abfs", path, key) == {"account_name": "acc", "account_key": "k"}


ACCOUNT = "abfss://c@acc.dfs.core.windows.net/x"
AZURE_KEY = "AccountKey=aGlkZGVu"


@pytest.mark.parametrize(
    ("options", "variable", "words"),
    [
        ({"fs.connection_string": f"AccountName=other;{AZURE_KEY}"}, None, r"'fs\.connection_string' is of .* 'other'"),
        (
            {"fs.connection_string": "BlobEndpoint=https://other.blob.core.windows.net/;SharedAccessSignature=sig"},
            None,
            r"'fs\.connection_string' is of .* 'other': give 'fs\.connection_string' of",
        ),
        ({"fs.azure.account.key": "aGlkZGVu"}, f"AccountName=other;{AZURE_KEY}", r"AZURE_STORAGE_CONNECTION_STRING"),
        (
            {"fs.account_name": "other", "fs.account_key": "aGlkZGVu"},
            None,
            r"'fs\.account_name' is of .* 'other': leave",
        ),
    ],
)
def test_options_of_another_account_of_azure_are_refused(
    options: dict[str, str], variable: str | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)
    if variable:
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", variable)
    with pytest.raises(OptionError, match=f"The path names the account 'acc' of Azure, and {words}") as refused:
        FileIO.for_path(ACCOUNT, options).exists(ACCOUNT)
    assert "aGlkZGVu" not in str(refused.value)


@pytest.mark.parametrize(
    ("path", "options", "url"),
    [
        (ACCOUNT, {"fs.connection_string": f"AccountName=ACC;{AZURE_KEY}"}, "https://ACC.blob.core.windows.net/"),
        (
            ACCOUNT,
            {"fs.connection_string": f"AccountName=other;{AZURE_KEY};BlobEndpoint=http://127.0.0.1:1/other;"},
            "http://127.0.0.1:1/other/",
        ),
        (
            ACCOUNT,
            {"fs.account_name": "other", "fs.sas_token": "sig", "fs.account_host": "blobs.example.org"},
            "https://blobs.example.org/",
        ),
        (
            "abfss://c@acc.dfs.core.chinacloudapi.cn/x",
            {"fs.azure.account.key.acc.dfs.core.chinacloudapi.cn": "aGlkZGVu"},
            "https://acc.blob.core.chinacloudapi.cn/",
        ),
        ("abfs://c/x", {"fs.account_name": "b", "fs.account_key": "aGlkZGVu"}, "https://b.blob.core.windows.net/"),
    ],
)
def test_where_an_account_of_azure_is(
    path: str, options: dict[str, str], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)
    store = FileIO.for_path(path, options)
    assert isinstance(store, FsspecFileIO)
    assert store.filesystem(path).service_client.url == url


@pytest.mark.parametrize(
    ("path", "options", "address"),
    [
        ("/a", {"s3.endpoint": "http://h:1"}, ""),
        ("s3://b/a", {}, ""),
        ("s3://b/a", {"s3.endpoint": "http://H:1/"}, "h:1"),
        ("s3a://b/a", {"fs.s3a.endpoint": "h:1", "fs.s3a.connection.ssl.enabled": "false"}, "h:1"),
        ("s3://b/a", {"fs.client_kwargs": '{"endpoint_url": "https://h"}'}, "h"),
        ("s3://b/a", {"s3.endpoint": "https://s3.eu-west-1.amazonaws.com"}, ""),
        ("gs://b/a", {"gs.storage.root.url": "http://h:2"}, "h:2"),
        ("oss://b/a", {"fs.oss.endpoint": "h"}, "h"),
        ("abfss://c@a.dfs.core.windows.net/x", {"fs.connection_string": "BlobEndpoint=http://h/a;"}, "h/a"),
    ],
)  # fmt: skip
def test_the_address_tells_stores_apart(
    path: str, options: dict[str, str], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "STORAGE_EMULATOR_HOST", "FSSPEC_GCS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    assert store_of(path, options) == FileIO.for_path(path, options).address == address


def test_bad_json_and_contradictions_are_errors() -> None:
    with pytest.raises(OptionError, match=r"fs\.client_kwargs"):
        fsspec_options("s3", "s3://x", {"fs.client_kwargs": "{x"})
    with pytest.raises(OptionError, match=r"fs\.a\.b"):
        fsspec_options("s3", "s3://x", {"fs.a": "1", "fs.a.b": "2"})


@pytest.mark.parametrize("key", ["s3.path-style-access", "fs.s3a.path.style.access", "s3.connection.ssl.enabled"])
def test_what_is_true_or_false_is_nothing_else(key: str) -> None:
    with pytest.raises(OptionError, match="is true or false, not 'yess'"):
        fsspec_options("s3", "s3://b/t", {key: "yess"})
    assert fsspec_options("s3", "s3://b/t", {key: " TRUE "})


def test_only_store_options_are_kept() -> None:
    given = {"S3.Endpoint": "e", "bucket": "1", "fs.anon": "true", "commit.unsafe-rename": "true", "file.format": "orc"}
    assert set(store_options(given)) == {"S3.Endpoint", "fs.anon", "commit.unsafe-rename"}


def test_redaction() -> None:
    assert redact("hdfs://u:p@host/x@y") == "hdfs://host/x@y"
    assert redact("abfs://c@acc.dfs.core.windows.net/x") == "abfs://c@acc.dfs.core.windows.net/x"
    assert redact("/a@b") == "/a@b"
    assert secret_values([("key", "aaaa"), ("client_kwargs", {"token": "bbbbbb"}), ("region", "cccc")]) == (
        "bbbbbb",
        "aaaa",
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fs.s3a.server-side-encryption-algorithm", "SSE-KMS"),
        ("s3.encryption.algorithm", "AES256"),
        ("fs.s3a.security.credential.provider.path", "jceks://hdfs/a"),
        ("fs.s3a.aws.credentials.provider", "com.example.CredentialsOfOurVault"),
        ("s3a.requester.pays.enabled", "true"),
    ],
)
def test_hadoop_settings_that_change_what_is_stored_or_asked_are_refused(key: str, value: str) -> None:
    with pytest.raises(UnsupportedError, match=f"'{key}' is (not supported|com.example)"):
        fsspec_options("s3", "s3://x", {key: value})
    assert fsspec_options("gs", "gs://x", {key: value}) == {}, "it concerns another store"
    assert "key" not in fsspec_options("s3", "s3://x", {key: "false"})


def test_hadoop_settings_without_an_equal_are_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("paimon_spark.storage.store_options._logged", set())
    given = {
        "fs.s3a.threads.max": "9",
        "fs.s3a.access.key": "a",
        "fs.gs.block.size": "1",
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            fsspec_options("s3", "s3a://x", given)
        fsspec_options("abfs", "abfs://c@a.b/x", {"fs.azure.io.retry.max.retries": "3", "fs.azure.account.key": "k"})
    assert [record.getMessage() for record in caplog.records] == [
        "Option 'fs.s3a.threads.max' is ignored: fsspec's file system of 's3:' has no equal for it.",
        "Option 'fs.azure.io.retry.max.retries' is ignored: fsspec's file system of 'abfs:' has no equal for it.",
    ]


def test_a_default_store_does_not_move_local_paths() -> None:
    with pytest.raises(UnsupportedError, match=r"Write the whole path, such as hdfs://nn:8020/warehouse"):
        FileIO.for_path("/warehouse/db.db/t", {"fs.defaultFS": "hdfs://nn:8020/"})
    FileIO.for_path("file:/warehouse/db.db/t", {"fs.defaultFS": "hdfs://nn:8020"})
    FileIO.for_path("/warehouse/db.db/t", {"fs.defaultFS": "file:///"})
