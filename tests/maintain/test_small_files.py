"""What a process remembers of small files that manifests name."""

from __future__ import annotations

import pytest

from paimon_spark.maintain.compact import due


class Counted(due._SmallFiles):
    """Small files that count how often somebody asks how many they are."""

    __slots__ = ()
    asked = 0

    def __len__(self) -> int:
        Counted.asked += 1
        return len(self.added) + 1


def test_a_manifest_is_counted_twice_however_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due, "_MOST_KEPT", 20)
    kept = due.KeptSmallFiles()
    for number in range(100):
        kept.put((f"m{number}", 1), Counted({("", 0, str(number)): (b"", 1)}, frozenset()))
    assert Counted.asked <= 200
    assert [number for number in range(100) if kept.get((f"m{number}", 1)) is not None] == list(range(90, 100))


def test_one_that_is_too_large_by_itself_is_kept_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due, "_MOST_KEPT", 1)
    kept = due.KeptSmallFiles()
    for number in range(2):
        kept.put((str(number), 1), due._SmallFiles({("", 0, "f"): (b"", 1)}, frozenset()))
    assert (kept.get(("0", 1)) is None, kept.get(("1", 1)) is None) == (True, False)
