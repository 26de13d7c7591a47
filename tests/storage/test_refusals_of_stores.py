"""What a store refuses becomes one sentence that says what to do, without a key, within half a minute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from paimon_spark.errors import PaimonError
from paimon_spark.storage.file_io import FileIO
from paimon_spark.table.table import load_table
from tests.support.faulty_server import S3_REFUSALS, XML, Answer, Fault, Faults, faulty
from tests.support.pauses import pauses
from tests.support.s3_server import S3Server
from tests.support.store_server import StoreServer
from tests.support.store_servers import store_server

_SECONDS = 30


def azure(status: int, code: str, message: str) -> Answer:
    return Answer(
        status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>", (*XML, ("x-ms-error-code", code))
    )


def gcs(status: int, message: str) -> Answer:
    body = f'{{"error": {{"code": {status}, "message": "{message}", "errors": [{{"reason": "x"}}]}}}}'
    return Answer(status, body, (("Content-Type", "application/json"),))


def oss(status: int, code: str) -> Answer:
    body = f"<Error><Code>{code}</Code><Message>{code}</Message><RequestId>1</RequestId></Error>"
    return Answer(status, body, (*XML, ("x-oss-request-id", "1")))


CLOCK = r"The clock of this machine differs.*Set the clock"
AZURE = {
    "keys": (azure(403, "AuthenticationFailed", "Server failed to authenticate the request."), r"may not be read"),
    "denied": (azure(403, "AuthorizationPermissionMismatch", "not authorized to perform this"), r"may not be read"),
    "clock": (azure(403, "AuthenticationFailed", "Request date header too old"), r"The clock of this machine differs"),
    "bucket": (azure(404, "ContainerNotFound", "The specified container does not exist."), r"does not exist.*Create"),
}
GCS = {
    "keys": (gcs(401, "Anonymous caller has no access"), r"may not be read or written"),
    "denied": (gcs(403, "does not have storage.objects.list access"), r"may not be read or written"),
    "clock": (gcs(401, "Invalid JWT: Token must be a short-lived token and in a reasonable timeframe."), CLOCK),
    "bucket": (gcs(404, "The specified bucket does not exist."), r"The bucket of .* does not exist.*Create"),
}
OSS = {
    "keys": (oss(403, "InvalidAccessKeyId"), r"check the keys"),
    "denied": (oss(403, "AccessDenied"), r"may not be read or written"),
    "clock": (oss(403, "RequestTimeTooSkewed"), r"The clock of this machine differs"),
    "token": (oss(403, "InvalidSecurityToken"), r"Give a new one"),
    "bucket": (oss(404, "NoSuchBucket"), r"The bucket of .* does not exist.*Create"),
}
PAGES = [
    (
        Answer(
            status, "<!DOCTYPE html><html><body>Log in</body></html>", (("Content-Type", "text/html; charset=utf-8"),)
        ),
        rf"A web page \(status {status}, text/html\) came in the place of .* check the endpoint \(",
    )
    for status in (200, 404)
]
CASES = [
    pytest.param(store, fault, words, id=f"{store}-{name}")
    for store, cases in (("s3", S3_REFUSALS), ("azure", AZURE), ("gcs", GCS), ("oss", OSS))
    for name, (fault, words) in {**cases, "page": PAGES[0], "missing-page": PAGES[1]}.items()
]


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest) -> Iterator[tuple[StoreServer, Faults]]:
    with store_server(request.param) as server, faulty(server) as behind:
        yield behind


@pytest.mark.parametrize(("store", "fault", "words"), CASES, indirect=["store"])
def test_what_to_do(store: tuple[StoreServer, Faults], fault: Fault, words: str) -> None:
    server, faults = store
    root = f"{server.root}/d.db/t"
    file_io = FileIO.for_path(root, server.options)
    faults.rule = lambda _method, _path: fault
    try:
        for call in (
            lambda: file_io.list_names(root),
            lambda: load_table(root, options=server.options),
        ):
            with pauses() as paused, pytest.raises(PaimonError, match=words) as caught:
                call()
            assert sum(pause.seconds for pause in paused) < _SECONDS, paused
            text = str(caught.value)
            assert "\n" not in text
            assert "{'" not in text  # no dict of Python
            secrets = file_io.secrets()  # type: ignore[attr-defined]
            assert not [secret for secret in secrets if secret in text]
    finally:
        faults.rule = None


@pytest.mark.parametrize("page", PAGES, ids=["200", "404"])
@pytest.mark.parametrize("store", ["s3", "azure", "gcs", "oss"], indirect=True)
def test_a_page_in_the_place_of_a_store_is_no_object(
    store: tuple[StoreServer, Faults], page: tuple[Answer, str]
) -> None:
    server, faults = store
    path = f"{server.root}/d.db/t/snapshot/snapshot-1"
    file_io = FileIO.for_path(path, server.options)
    faults.rule = lambda _method, _path: page[0]
    try:
        for call in (
            lambda: file_io.read_bytes(path),
            lambda: file_io.exists(path),
            lambda: file_io.write_bytes(path, b"x", overwrite=True),
            lambda: file_io.create_exclusive(path, b"x"),
        ):
            with pytest.raises(PaimonError, match=page[1]):
                call()
        assert file_io.delete_files([path]) == [path]
    finally:
        faults.rule = None


@pytest.mark.parametrize("page", PAGES, ids=["200", "404"])
def test_a_page_in_the_place_of_a_namenode(page: tuple[Answer, str]) -> None:
    with faulty(StoreServer("http://127.0.0.1:1", "webhdfs://127.0.0.1:1/wh", {})) as (front, faults):
        faults.rule = lambda _method, _path: page[0]
        root = f"webhdfs://{front.url.removeprefix('http://')}/wh"
        file_io = FileIO.for_path(root)
        for call in (
            lambda: load_table(f"{root}/d.db/t"),
            lambda: file_io.exists(f"{root}/d.db"),
            lambda: file_io.read_bytes(f"{root}/d.db/t/snapshot/LATEST"),
        ):
            with pytest.raises(PaimonError, match=page[1]):
                call()


def test_an_object_may_be_a_page() -> None:
    with store_server("s3") as server:
        assert isinstance(server, S3Server)
        key = f"{server.root.removeprefix('s3a://')}/page.html"
        server.store().pipe_file(key, b"<html></html>", ContentType="text/html")
        file_io = FileIO.for_path(server.root, server.options)
        assert file_io.exists(f"s3a://{key}")
        assert file_io.read_bytes(f"s3a://{key}") == b"<html></html>"


@pytest.mark.parametrize("path", ["s3:///wh/d.db/t", "s3a://", "s3a:/wh/t", "gs:///wh", "oss:///wh"])
def test_a_path_without_a_bucket(path: str) -> None:
    with pytest.raises(PaimonError, match=rf"'{path.rstrip('/')}/*' names no bucket\. Write (s3|gs|oss)://<bucket>/"):
        load_table(path, options={"s3.access-key": "hidden-key"})


@pytest.mark.parametrize(
    "path", ["abfs:///wh/d.db/t", "abfss://@account.dfs.core.windows.net/wh", "wasb://", "abfs:/wh"]
)
def test_a_path_without_a_container(path: str) -> None:
    options = {"fs.azure.account.key": "aGlkZGVu", "fs.connection_string": AWAY}
    with pytest.raises(PaimonError, match=r"names no container\. Write abfs://<container>@") as caught:
        load_table(path, options=options)
    assert "aGlkZGVu" not in str(caught.value)


AWAY = "DefaultEndpointsProtocol=http;AccountName=account;AccountKey=aGlkZGVu;BlobEndpoint=http://127.0.0.1:1/account;"


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("s3://b/wh/t", {"s3.endpoint": "http://127.0.0.1:1", "s3.access-key": "hidden", "s3.secret-key": "hidden"}),
        ("s3://b/wh/t", {"s3.endpoint": "http://", "s3.access-key": "hidden", "s3.secret-key": "hidden"}),
        ("oss://bucket/wh/t", {"fs.oss.endpoint": "http://127.0.0.1:1"}),
        ("hdfs://127.0.0.1:1/wh/t", {}),
        ("gs://b/wh/t", {"fs.endpoint_url": "http://127.0.0.1:1", "fs.token": "anon"}),
        ("abfs://c/wh/t", {"fs.connection_string": AWAY}),
        (
            "s3a://b/wh/t",
            {"fs.s3a.endpoint": "http://127.0.0.1:1", "fs.s3a.access.key": "hidden", "fs.s3a.secret.key": "hidden"},
        ),
    ],
)
def test_a_store_that_is_not_there(path: str, options: dict[str, str]) -> None:
    words = r"(does not answer|No NameNode answers|has no address).*(Check|Give)"
    with pauses() as paused, pytest.raises(PaimonError, match=words) as caught:
        load_table(path, options=options)
    assert "\n" not in str(caught.value)
    assert not {"hidden", "aGlkZGVu"} & set(str(caught.value).replace("=", " ").replace(";", " ").split())
    assert sum(pause.seconds for pause in paused) < _SECONDS, paused
