"""Secrets among options are in no text: not of objects, not of errors about other options."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark.errors import OptionError, PaimonError
from paimon_spark.spark.source.source_options import read_request, write_request
from paimon_spark.spark.table.paimon_table import PaimonTable
from paimon_spark.storage.store_options import QuietOptions, without_secrets
from paimon_spark.table.filesystem_catalog import FilesystemCatalog
from paimon_spark.table.table import load_table

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
