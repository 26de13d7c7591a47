"""A store's options in Hadoop's spelling: what has an equal there, and what is left to Python."""

from __future__ import annotations

from typing import Any

import pytest

from paimon_spark.storage.hadoop_options import hadoop_options
from paimon_spark.storage.store_options import fsspec_options

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


def test_other_stores_have_those_of_the_session() -> None:
    assert hadoop_options("gs", {}, ()) == {}
    assert hadoop_options("gs", {"token": "t"}, ()) is None
