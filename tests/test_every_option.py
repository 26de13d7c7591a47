"""Every known option is honoured, refused by name, or ignored with one log line: seen by setting each of them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from paimon_spark.commit.settings import CommitSettings
from paimon_spark.errors import OptionError, PaimonError, UnsupportedError
from paimon_spark.maintain.compact.compaction import check_compactable
from paimon_spark.maintain.refs.tags import create_tag
from paimon_spark.options import Option, OptionKind, Refusal, Scope, Stage, refusal
from paimon_spark.spec.data_types import DataField
from paimon_spark.spec.schema import create_schema
from paimon_spark.spec.type_parser import parse_type
from paimon_spark.table.filesystem_catalog import check_catalog_options
from paimon_spark.table.schema_change import SetOption
from paimon_spark.table.schema_evolution import alter_table
from paimon_spark.table.support import check_readable, check_writable
from paimon_spark.table.table import FileStoreTable, create_table, load_table
from tests.support.options_tried import EVERY, key_of, value_of

ON_TABLES = (Stage.TABLE, Stage.READ, Stage.WRITE, Stage.COMMIT)


@pytest.fixture(autouse=True)
def nothing_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal, "_logged", {})


def make(path: Path, **options: str) -> FileStoreTable:
    fields = [DataField(i, n, parse_type(t)) for i, (n, t) in enumerate((("k", "INT NOT NULL"), ("v", "STRING")))]
    return create_table(str(path / "t"), create_schema(fields, (), (), options, None))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> FileStoreTable:
    """A table that no test changes."""
    return make(tmp_path_factory.mktemp("plain"))


def stored(path: Path, option: Option, value: str) -> FileStoreTable:
    """A table that another engine has given an option."""
    table = make(path)
    table.schemas.commit_next(
        lambda schema: replace(schema, id=schema.id + 1, options={**schema.options, key_of(option): value})
    )
    refusal._logged.clear()
    return load_table(table.path)


def lines(caplog: pytest.LogCaptureFixture, option: Option) -> list[tuple[int, str]]:
    found = [(r.levelno, r.getMessage()) for r in caplog.records if r.name == refusal.__name__]
    caplog.clear()
    assert all(f"option '{key_of(option)}'" in text for _, text in found)
    return found


def each(*, kind: str) -> list[Any]:
    return list(_each(kind))


def _each(kind: str) -> Iterator[Any]:
    for option in EVERY:
        if kind == "refused":
            yield from (
                pytest.param(option, refused, id=f"{option.key}-{refused.stage.name}") for refused in option.refusals
            )
        elif kind == "every" or (kind == "ignored" and option.instead is not None and option.scope is Scope.TABLE):
            yield pytest.param(option, id=option.key)


def test_each_option_is_of_one_kind() -> None:
    for option in EVERY:
        assert option.honoured or option.refusals or option.instead, option.key
        assert not (option.honoured and option.instead), option.key
        if option.refusals and option.instead:  # then what a table has stored is ignored in some places
            assert {refused.stage for refused in option.refusals} <= {Stage.GIVEN, Stage.COMPACT, Stage.CATALOG}, (
                option.key
            )
        if any(refused.stage is Stage.GIVEN for refused in option.refusals):
            assert option.instead or option.honoured, option.key  # streams honour what batch reads refuse


def done(table: FileStoreTable, stage: Stage) -> None:
    """Start what a stage names."""
    match stage:
        case Stage.TABLE | Stage.READ:
            check_readable(table.schema)
        case Stage.WRITE:
            check_writable(table.schema)
        case Stage.COMMIT:
            CommitSettings.of(table.options)
        case Stage.COMPACT:
            check_compactable(table)
        case _:
            create_tag(table, "a")


@pytest.mark.parametrize(("option", "refused"), each(kind="refused"))
def test_what_is_refused_is_refused_by_name_before_anything_is_done(
    plain: FileStoreTable, tmp_path: Path, option: Option, refused: Refusal
) -> None:
    value = value_of(option, refused)
    if refused.stage is Stage.CATALOG:
        with pytest.raises(UnsupportedError, match=f"'{key_of(option)}'"):
            check_catalog_options({key_of(option): value})
        with pytest.raises(OptionError, match="give it to register_catalog"):
            load_table(plain.path, options={key_of(option): value})
        return
    if refused.stage is Stage.GIVEN:
        with pytest.raises(UnsupportedError) as error:
            load_table(plain.path, options={key_of(option).lower(): value})
    else:
        table = stored(tmp_path, option, value)
        with pytest.raises(UnsupportedError) as error:
            done(table, refused.stage)
    assert f"option '{key_of(option)}' = '{value}' is not supported yet. {refused.advice}" in str(error.value)
    if refused.stage is Stage.TABLE:
        with pytest.raises(UnsupportedError, match="not supported yet"):
            check_writable(table.schema)


@pytest.mark.parametrize(("option", "refused"), each(kind="refused"))
def test_no_table_is_altered_so_that_it_could_not_be_read_or_written(
    plain: FileStoreTable, option: Option, refused: Refusal
) -> None:
    if refused.stage not in ON_TABLES:
        return
    with pytest.raises(PaimonError, match=f"{re.escape(key_of(option))}|row-tracking.enabled|vector-store file format"):
        alter_table(plain, [SetOption(key_of(option), value_of(option, refused))])
    assert plain.with_latest_schema().schema.id == 0


@pytest.mark.parametrize("option", each(kind="ignored"))
def test_what_is_ignored_is_logged_once_and_hinders_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, option: Option
) -> None:
    """INFO for what another engine has stored, WARNING for what is given or set here."""
    caplog.set_level(logging.INFO)
    value = value_of(option)
    table = stored(tmp_path / "stored", option, value)
    load_table(table.path)
    (level, text), *more = lines(caplog, option)
    assert (level, more) == (logging.INFO, [])
    assert text == f"{table.path}: option '{key_of(option)}' = '{value}' is ignored. {option.instead}"
    check_readable(table.schema)
    check_writable(table.schema)

    make(tmp_path / "created", **{key_of(option): value})
    assert lines(caplog, option) == [(logging.WARNING, text.replace("/stored/", "/created/"))]

    if option.immutable or any(refused.stage is Stage.GIVEN for refused in option.refusals):
        return  # refused where it is given
    given = make(tmp_path / "given")
    load_table(given.path, options={key_of(option): value})
    load_table(given.path, options={key_of(option): value})
    assert lines(caplog, option) == [(logging.WARNING, text.replace("/stored/", "/given/"))]


@pytest.mark.parametrize("option", each(kind="every"))
def test_values_of_every_option_are_checked_where_they_are_given(plain: FileStoreTable, option: Option) -> None:
    bad = {OptionKind.MAP: "v", OptionKind.STRING: None}.get(option.type, "no such value")
    if bad is None or option.scope is Scope.CATALOG:
        return
    reported = rf"Could not parse value '({bad}|\*\*\*)' for key"  # a value whose key may name a secret is not shown
    for key in (key_of(option), *option.fallback_keys):
        with pytest.raises(OptionError, match=reported):
            load_table(plain.path, options={key: bad})
        if option.scope is Scope.TABLE:
            with pytest.raises(PaimonError, match=f"{reported}|Change 'type'"):
                alter_table(plain, [SetOption(key, bad)])


def test_what_a_catalog_ignores_is_logged(plain: FileStoreTable, caplog: pytest.LogCaptureFixture) -> None:
    """Caches, which change no row."""
    ignored = [o for o in EVERY if o.scope is Scope.CATALOG and o.instead is not None and not o.refusals]
    assert len(ignored) > 10
    for option in ignored:
        check_catalog_options({key_of(option): value_of(option)})
        assert [level for level, _ in lines(caplog, option)] == [logging.WARNING]
        load_table(plain.path, options={key_of(option): value_of(option)})
        assert [level for level, _ in lines(caplog, option)] == [logging.WARNING]


def test_a_default_is_a_value_of_its_kind() -> None:
    kinds = {
        OptionKind.BOOL: bool,
        OptionKind.INT: int,
        OptionKind.LONG: int,
        OptionKind.FLOAT: float,
        OptionKind.MEMORY: int,
        OptionKind.DURATION: timedelta,
        OptionKind.ENUM: str,
        OptionKind.STRING: str,
    }
    for option in EVERY:
        if option.default is not None and option.type in kinds:
            assert type(option.default) is kinds[option.type], option.key
