"""`PaimonTable` is made of parts; what users see of it are its own methods with the signatures of the parts."""

import inspect

import pytest

from paimon_spark import PaimonTable

NAMES = [name for name in dir(PaimonTable) if not name.startswith("_")]


def test_it_inherits_from_nothing() -> None:
    assert PaimonTable.__mro__ == (PaimonTable, object)
    assert len(NAMES) == 84


@pytest.mark.parametrize("name", NAMES)
def test_each_method_shows_what_it_takes(name: str) -> None:
    member = inspect.getattr_static(PaimonTable, name)
    assert inspect.getdoc(member)
    if isinstance(member, property):
        return
    function = getattr(PaimonTable, name)
    assert function.__qualname__ == f"PaimonTable.{name}"
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    assert inspect.Parameter.VAR_POSITIONAL not in kinds
    assert inspect.Parameter.POSITIONAL_ONLY not in kinds


def test_signatures_of_parts_are_those_of_the_whole() -> None:
    assert str(inspect.signature(PaimonTable.delete_branch)) == (
        "(self, name: 'str | Sequence[str]', *, ignore_if_missing: 'bool' = False, "
        "accept_lost_snapshot: 'bool' = False) -> 'None'"
    )
    assert str(inspect.signature(PaimonTable.files)) == "(self, **options: 'Any') -> 'DataFrame'"
