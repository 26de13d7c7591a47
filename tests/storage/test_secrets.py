"""Secrets among options are in no text: not of objects, not of errors about other options."""

from __future__ import annotations

import contextlib
import logging
import re
from pathlib import Path

import pytest

from paimon_spark.errors import OptionError, PaimonError
from paimon_spark.spark.source.source_options import read_request, write_request
from paimon_spark.spark.table.paimon_table import PaimonTable
from paimon_spark.storage.file_io import FileIO
from paimon_spark.storage.store_options import QuietOptions, without_secrets
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.table import load_table
from tests.support.store_servers import store_server

SECRETS = {"s3.secret-key": "hush-hush", "fs.s3a.access.key": "AKIAHUSH", "fs.password": "pa55word"}


def test_texts_of_objects_have_no_secrets() -> None:
    given = {**SECRETS, "s3.endpoint": "http://here"}
    path = "s3://b/t"
    objects = [
        FilesystemCatalog("s3://b", given),
        vars(PaimonTable(None, path, given)),  # type: ignore[arg-type]
        QuietOptions(given),
        read_request({**given, "path": path}),
        write_request({**given, "path": path}, overwrite=False),
    ]
    for shown in map(repr, objects):
        assert not any(secret in shown for secret in SECRETS.values()), shown
    assert "http://here" in repr(QuietOptions(given))
    assert QuietOptions(given) == given


def test_a_secret_given_as_another_options_value_is_not_echoed(tmp_path: Path) -> None:
    from tests.support.commits import make_table

    table = make_table(tmp_path / "t")
    given = {**SECRETS, "source.split.target-size": "hush-hush"}
    with pytest.raises(PaimonError, match=r"\*\*\*") as caught:
        load_table(table.path, options=given).options.split_target_size_bytes  # noqa: B018
    assert "hush-hush" not in str(caught.value)


def _fail() -> None:
    try:
        raise ValueError("hush-hush is no number")
    except ValueError as error:
        raise OptionError("Could not parse value 'hush-hush' for key 'bucket'") from error


def test_a_message_is_cleaned_with_what_led_to_it() -> None:
    with pytest.raises(OptionError) as caught, without_secrets(SECRETS):
        _fail()
    assert str(caught.value) == "Could not parse value '***' for key 'bucket'"
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def _work(file_io: FileIO, root: str) -> None:
    for deed in (
        lambda: file_io.write_bytes(f"{root}/x/a", b"1", overwrite=True),
        lambda: file_io.create_exclusive(f"{root}/x/b", b"1"),
        lambda: file_io.list_names(f"{root}/x"),
        lambda: file_io.read_bytes(f"{root}/x/a"),
        lambda: file_io.delete_files([f"{root}/x/a", f"{root}/x/b"]),
    ):
        with contextlib.suppress(PaimonError):  # a server may look at what it is given
            deed()


_ROLE = {
    "fs.s3a.assumed.role.arn": "arn:aws:iam::123456789012:role/r",
    "fs.s3a.assumed.role.sts.endpoint.region": "us-east-1",
}
_GIVEN = {
    "s3": {"s3.secret-key": "hush-hush", "s3.session-token": "token-hush"},
    "s3 role": {"s3.secret-key": "hush-hush", **_ROLE},
    "oss": {"fs.oss.accessKeySecret": "hush-hush", "fs.oss.securityToken": "token-hush"},
    "azure": {},
    "azure sas": {},
    "gcs": {"fs.token": "anon"},
}


@pytest.mark.parametrize("case", _GIVEN)
def test_logs_of_stores_at_debug_have_no_secrets(case: str, caplog: pytest.LogCaptureFixture) -> None:
    with store_server(case.partition(" ")[0]) as server:
        given = {**server.options, **_GIVEN[case]}
        secrets = ["hush"]
        if case == "s3 role":
            given["fs.s3a.assumed.role.sts.endpoint"] = server.url
        elif case == "azure":
            secrets += re.findall("AccountKey=([^;]+)", given["fs.connection_string"])
        elif case == "azure sas":
            address = re.findall("BlobEndpoint=[^;]+", given["fs.connection_string"])[0]
            given["fs.connection_string"] = f"{address};SharedAccessSignature=sv=2024-01-01&ss=b&sig=hush-hush"
        with caplog.at_level(logging.DEBUG):
            _work(FileIO.for_path(server.root, given), server.root)
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert "wh/x" in text
    assert not [secret for secret in secrets if secret in text]
    told = re.findall(r"(?:<SecretAccessKey>|<SessionToken>|(?i:security-token)['\"]?: ?(?:b['\"])?)([^'\"\s<]+)", text)
    assert set(told) == ({"***"} if case.startswith("s3") else set())


def test_py4j_shows_no_secret_of_options_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    """What a migration by Spark's writer, or a user's own ``option(…)``, sends to the JVM."""
    pytest.importorskip("pyspark")
    from paimon_spark.spark.session.pyspark_members import unlogged

    logger = logging.getLogger("py4j.clientserver")
    with caplog.at_level(logging.DEBUG):
        logger.debug("Command to send: c\no7\noption\nss3.secret-key\nshush-hush\ne\n")
        logger.debug("Command to send: %s", "c\no7\noption\nsprimary-key\nsk_one\ne\n")
        with unlogged():
            logger.debug("Answer received: hush-hush")
    assert caplog.messages == [
        "Command to send: c\no7\noption\nss3.secret-key\ns***\ne\n",
        "Command to send: c\no7\noption\nsprimary-key\nsk_one\ne\n",
    ]
