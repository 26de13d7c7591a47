"""A model of tables whose keys move between partitions."""

from __future__ import annotations

from typing import Any

Row = tuple[Any, ...]

COLUMNS = [("k", "INT NOT NULL"), ("p", "INT NOT NULL"), ("v", "STRING"), ("n", "INT")]


class Model:
    """The rows of a table as a dict of keys."""

    def __init__(self, engine: str, *, cross_partition: bool) -> None:
        self.engine = engine
        self.cross_partition = cross_partition
        self.rows: dict[Any, Row] = {}

    def put(self, row: Row) -> None:
        k, p, v, n = row
        key = k if self.cross_partition else (k, p)
        old = self.rows.get(key)
        if old is None or self.engine == "deduplicate":
            self.rows[key] = row
        elif self.engine == "partial-update":
            self.rows[key] = (k, old[1], old[2] if v is None else v, old[3] if n is None else n)
        else:
            added = old[3] if n is None else n + (old[3] or 0)
            self.rows[key] = (k, old[1], old[2] if v is None else v, added)

    def sorted_rows(self) -> list[Row]:
        return sorted(self.rows.values(), key=repr)
