"""Row-at-a-time models of merge engines by docs/internals/format.md §10, §14: slow, plain, independent of the kernel.

A row is a dict of Python values with ``_SEQUENCE_NUMBER`` and ``_VALUE_KIND``. Arrays are lists, maps lists of pairs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

Row = dict[str, Any]
_EXACT = Context(prec=200)


class ModelError(Exception):
    """Java would throw here."""


def compare(left: Any, right: Any) -> int:
    """Java's order: null first, bytes unsigned, Double.compare."""
    if left is None or right is None:
        return (left is not None) - (right is not None)
    if isinstance(left, float):
        left, right = _float_key(left), _float_key(right)
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    return (left > right) - (left < right)


def _float_key(value: float) -> int:
    if value != value:
        return 2**63
    bits = struct.unpack(">q", struct.pack(">d", value))[0]
    return bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF


def is_blank(text: str | None) -> bool:
    return text is None or not text.strip(" \t\n\r\x0b\x0c\u2003")


class Fold:
    """One aggregator of one key."""

    def __init__(self, function: str, kind: str, options: Mapping[str, Any]) -> None:
        self.function, self.kind, self.options, self.started = function, kind, options, False

    def agg(self, acc: Any, value: Any) -> Any:
        return getattr(self, f"_{self.function}")(acc, value)

    def reversed(self, acc: Any, value: Any) -> Any:
        wrapped = self.options.get("ignore-retract") == "true"  # FieldIgnoreRetractAgg has no aggReversed of its own
        return self.agg(acc, value) if self.function == "collect" and not wrapped else self.agg(value, acc)

    def retract(self, acc: Any, value: Any) -> Any:
        if self.options.get("ignore-retract") == "true":
            return acc
        handler: Callable[[Any, Any], Any] | None = getattr(self, f"_undo_{self.function}", None)
        if handler is None:
            raise ModelError(self.function)
        return handler(acc, value)

    def _primary_key(self, acc: Any, value: Any) -> Any:
        return value

    def _last_value(self, acc: Any, value: Any) -> Any:
        return value

    def _undo_last_value(self, acc: Any, value: Any) -> Any:
        return None

    def _last_non_null_value(self, acc: Any, value: Any) -> Any:
        return acc if value is None else value

    def _undo_last_non_null_value(self, acc: Any, value: Any) -> Any:
        return acc if value is None else None

    def _first_value(self, acc: Any, value: Any) -> Any:
        started, self.started = self.started, True
        return acc if started else value

    def _first_non_null_value(self, acc: Any, value: Any) -> Any:
        if not self.started and value is not None:
            self.started = True
            return value
        return acc

    def _max(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        return value if compare(acc, value) < 0 else acc

    def _min(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        return acc if compare(acc, value) < 0 else value

    def _bool_and(self, acc: Any, value: Any) -> Any:
        return (value if acc is None else acc) if acc is None or value is None else acc and value

    def _bool_or(self, acc: Any, value: Any) -> Any:
        return (value if acc is None else acc) if acc is None or value is None else acc or value

    def _fit(self, number: Any) -> Any:
        if self.kind.startswith("DECIMAL"):
            precision, scale = (int(part) for part in self.kind[8:-1].split(","))
            rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
            unscaled = int(rounded.scaleb(scale, _EXACT))
            compact_sum = self.function == "sum" and precision <= 18 and -(2**63) <= unscaled < 2**63
            return rounded if compact_sum or abs(unscaled) < 10**precision else None
        if self.kind == "FLOAT":
            return (
                struct.unpack("f", struct.pack("f", number))[0] if abs(number) < 3.4e38 or number != number else number
            )
        bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}.get(self.kind)
        if bits and not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise ModelError("overflow")
        return number

    def _sum(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        return self._fit(_EXACT.add(acc, value) if isinstance(acc, Decimal) else acc + value)

    def _undo_sum(self, acc: Any, value: Any) -> Any:
        if value is None:
            return acc
        minus = _EXACT.minus(value) if isinstance(value, Decimal) else -value
        return self._fit(minus) if acc is None else self._sum(acc, minus) if minus is not None else acc

    def _product(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        return self._fit(_EXACT.multiply(acc, value) if isinstance(acc, Decimal) else acc * value)

    def _undo_product(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return acc
        if isinstance(acc, float):
            if value == 0:
                nan = float("nan")
                return nan if acc == 0 or acc != acc else float("inf") * acc * (1 if str(value)[0] != "-" else -1)
            return self._fit(acc / value)
        if value == 0:
            raise ModelError("/ by zero")
        if isinstance(acc, Decimal):
            quotient = Context(prec=80).divide(acc, value)
            if _EXACT.multiply(quotient, value) != acc:
                raise ModelError("non-terminating")
            return self._fit(quotient)
        return self._fit(abs(acc) // abs(value) * (1 if (acc < 0) == (value < 0) else -1))

    def _listagg(self, acc: Any, value: Any) -> Any:
        if is_blank(value):
            return acc
        if is_blank(acc):
            return value
        delimiter = self.options.get("list-agg-delimiter", ",")
        if self.options.get("distinct") != "true":
            return acc + delimiter + value
        seen, parts = set(acc.split(delimiter)), [acc]
        for token in value.split(delimiter):
            if not is_blank(token) and token not in seen:
                seen.add(token)
                parts.append(token)
        return delimiter.join(parts)

    def _collect(self, acc: Any, value: Any) -> Any:
        if acc is None and value is None:
            return None
        front, everything = list(acc or []), [*(acc or []), *(value or [])]
        if self.options.get("distinct") != "true":
            return everything
        if not self.kind.startswith(("ARRAY<ARRAY", "ARRAY<ROW", "ARRAY<MAP", "ARRAY<BYTES", "ARRAY<BINARY")):
            return unique(everything)
        for element in value or []:
            if element not in front:
                front.append(element)
        return front

    def _undo_collect(self, acc: Any, value: Any) -> Any:
        if acc is None or not value:
            return acc
        left = list(value)
        kept = []
        for element in acc:
            if element in left:
                left.remove(element)
            else:
                kept.append(element)
        return kept

    def _merge_map(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        return list({**dict(acc), **dict(value)}.items())

    def _undo_merge_map(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return acc
        return [(key, item) for key, item in acc if key not in dict(value)]

    def _merge_map_with_keytime(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return value if acc is None else acc
        result = dict(acc)
        for key, row in value:
            if row is None:
                result.pop(key, None)
            elif row["ts"] is not None:
                old = result.get(key)
                if old is None or old["ts"] is None or row["ts"] > old["ts"]:
                    result[key] = row
        return list(result.items())

    def _put(self, table: dict[Any, Any], rows: Any, limit: int) -> None:
        names, sequence = self.options["nested-key"].split(","), self.options.get("nested-sequence-field")
        for row in rows or []:
            if row is None:
                continue
            key = tuple(row[name] for name in names)
            if None in key and self.options.get("nested-key-null-strategy") == "ignore":
                continue
            if None in key and self.options.get("nested-key-null-strategy") == "error":
                raise ModelError("Nested key contains null values")
            if key in table:
                if sequence is None or compare(row[sequence], table[key][sequence]) >= 0:
                    table[key] = row
            elif len(table) < limit:
                table[key] = row

    def _nested_update(self, acc: Any, value: Any) -> Any:
        if value is None:
            return acc
        limit = int(self.options.get("count-limit", 2**31 - 1))
        if "nested-key" in self.options:
            table: dict[Any, Any] = {}
            self._put(table, acc, 10**9)
            self._put(table, value, limit)
            return list(table.values())
        if acc is not None and len(acc) >= limit:
            return acc
        held = [row for row in acc or [] if row is not None]
        return held + [row for row in value if row is not None][: limit - len(acc or [])]

    def _undo_nested_update(self, acc: Any, value: Any) -> Any:
        if acc is None or value is None:
            return acc
        if "nested-key" not in self.options:
            gone = [row for row in value if row is not None]
            return [row for row in acc if row is not None and row not in gone]
        names = self.options["nested-key"].split(",")
        ignore = self.options.get("nested-key-null-strategy") == "ignore"
        table: dict[Any, Any] = {}
        for rows, put in ((acc, True), (value, False)):
            for row in rows:
                key = None if row is None else tuple(row[name] for name in names)
                if key is None or (None in key and ignore):
                    continue
                if None in key and self.options.get("nested-key-null-strategy") == "error":
                    raise ModelError("Nested key contains null values")
                if put:
                    table[key] = row
                else:
                    table.pop(key, None)
        return list(table.values())

    def _nested_partial_update(self, acc: Any, value: Any) -> Any:
        if value is None:
            return acc
        names = self.options["nested-key"].split(",")
        table: dict[Any, Any] = {}
        for row in [*(acc or []), *value]:
            if row is not None:
                key = tuple(row[name] for name in names)
                if None in key and self.options.get("nested-key-null-strategy") == "ignore":
                    continue
                if None in key and self.options.get("nested-key-null-strategy") == "error":
                    raise ModelError("Nested key contains null values")
                merged = table.setdefault(key, dict.fromkeys(row))
                merged.update({name: item for name, item in row.items() if item is not None})
        return list(table.values())


def unique(elements: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for element in elements:
        if not any(element == other and type(element) is type(other) for other in found):
            found.append(element)
    return found


class PartialUpdateModel:
    """One key of a partial-update table; Java ``PartialUpdateMergeFunction`` line by line."""

    def __init__(self, table: ModelTable) -> None:
        self.table = table
        self.row: Row = dict.fromkeys(table.names)
        self.folds = {name: table.fold(name) for name in table.names}
        self.filled = self.inserted = self.deleted = False
        self.sequence = 0

    def init(self, row: Row) -> None:
        for name in self.table.names:
            if row[name] is None and name in self.table.not_null:
                raise ModelError("can not be null")
        self.row = {name: row[name] for name in self.table.names}

    def add(self, row: Row) -> None:
        self.deleted = False
        if row["_VALUE_KIND"] % 2:
            if not self.filled:
                self.init(row)
                self.filled = True
            if self.table.ignore_delete:
                return
            self.sequence = row["_SEQUENCE_NUMBER"]
            if self.table.groups:
                self.retract_groups(row)
            elif self.table.remove_on_delete:
                if row["_VALUE_KIND"] == 3:
                    self.deleted = True
                    self.init(row)
            else:
                raise ModelError("By default, Partial update can not accept delete records")
            return
        self.sequence = row["_SEQUENCE_NUMBER"]
        if self.table.groups:
            self.update_groups(row)
        else:
            for name in self.table.names:
                if row[name] is not None:
                    self.row[name] = row[name]
                elif name in self.table.not_null:
                    raise ModelError("can not be null")
        self.filled = self.inserted = True

    def gate(self, row: Row, fields: Sequence[str]) -> int:
        return next((c for c in (compare(row[f], self.row[f]) for f in fields) if c), 0)

    def update_groups(self, row: Row) -> None:
        done: set[str] = set()
        for name in self.table.names:
            fields, fold = self.table.groups.get(name), self.folds[name]
            if fields is None:
                if fold is not None:
                    self.row[name] = fold.agg(self.row[name], row[name])
                elif row[name] is not None:
                    self.row[name] = row[name]
            elif name not in done and any(row[f] is not None for f in fields):
                if self.gate(row, fields) >= 0:
                    if name in fields:
                        self.row.update({f: row[f] for f in fields})
                        done.update(fields)
                    else:
                        self.row[name] = row[name] if fold is None else fold.agg(self.row[name], row[name])
                elif fold is not None:
                    self.row[name] = fold.reversed(self.row[name], row[name])

    def retract_groups(self, row: Row) -> None:
        done: set[str] = set()
        for name in self.table.names:
            fields, fold = self.table.groups.get(name), self.folds[name]
            if fields is None or name in done or all(row[f] is None for f in fields):
                continue
            if self.gate(row, fields) >= 0:
                if name in fields:
                    if row["_VALUE_KIND"] == 3 and set(fields) & self.table.removing:
                        self.deleted = True
                        self.init(row)
                        return
                    self.row.update({f: row[f] for f in fields})
                    done.update(fields)
                else:
                    self.row[name] = None if fold is None else fold.retract(self.row[name], row[name])
            elif fold is not None:
                self.row[name] = fold.retract(self.row[name], row[name])

    def result(self) -> Row | None:
        kind = 3 if self.deleted or not self.inserted else 0
        return {**self.row, "_SEQUENCE_NUMBER": self.sequence, "_VALUE_KIND": kind}


class AggregationModel:
    """One key of an aggregation table; Java ``AggregateMergeFunction`` line by line."""

    def __init__(self, table: ModelTable) -> None:
        self.table = table
        self.row: Row = dict.fromkeys(table.names)
        self.folds = {name: table.fold(name) for name in table.names}
        self.deleted = False
        self.sequence = 0
        self.failed: dict[str, ModelError] = {}

    def add(self, row: Row) -> None:
        self.sequence = row["_SEQUENCE_NUMBER"]
        self.deleted = self.table.remove_on_delete and row["_VALUE_KIND"] == 3
        if self.deleted:
            if any(row[name] is None for name in self.table.not_null):
                raise ModelError("can not be null")
            self.row = {name: row[name] for name in self.table.names}
            self.failed = {}  # a sum that overflowed is not looked at any more: Java fails where we do not
            return
        for name, fold in self.folds.items():
            if fold is None:
                raise TypeError(name)
            if row["_VALUE_KIND"] % 2 and fold.function == "primary_key":
                self.row[name] = row[name]
                continue
            try:
                self.row[name] = (fold.retract if row["_VALUE_KIND"] % 2 else fold.agg)(self.row[name], row[name])
            except ModelError as error:
                if fold.function not in ("sum", "product"):
                    raise
                self.failed.setdefault(name, error)

    def result(self) -> Row | None:
        for error in self.failed.values():
            raise error
        if any(self.row[name] is None for name in self.table.not_null):
            raise ModelError("can not be null")
        return {**self.row, "_SEQUENCE_NUMBER": self.sequence, "_VALUE_KIND": 3 if self.deleted else 0}


class FirstRowModel:
    """One key of a first-row table."""

    def __init__(self, table: ModelTable) -> None:
        self.table = table
        self.first: Row | None = None

    def add(self, row: Row) -> None:
        if row["_VALUE_KIND"] % 2:
            if not self.table.ignore_delete:
                raise ModelError("By default, First row merge engine can not accept DELETE/UPDATE_BEFORE records")
        elif self.first is None:
            self.first = row

    def result(self) -> Row | None:
        return self.first


class DeduplicateModel:
    """One key of a deduplicate table."""

    def __init__(self, table: ModelTable) -> None:
        self.table, self.newest = table, None

    def add(self, row: Row) -> None:
        if not (self.table.ignore_delete and row["_VALUE_KIND"] % 2):
            self.newest = row

    def result(self) -> Row | None:
        return self.newest


MODELS: dict[str, Any] = {
    "deduplicate": DeduplicateModel,
    "partial-update": PartialUpdateModel,
    "aggregation": AggregationModel,
    "first-row": FirstRowModel,
}


class ModelTable:
    """A table of the model: columns with SQL types, keys and options."""

    def __init__(self, columns: Mapping[str, str], keys: Sequence[str], options: Mapping[str, str]) -> None:
        self.columns, self.keys, self.options = columns, keys, options
        self.names = list(columns)
        self.not_null = {name for name, kind in columns.items() if kind.endswith("NOT NULL")} | set(keys)
        self.ignore_delete = options.get("ignore-delete") == "true"
        self.engine = options.get("merge-engine", "deduplicate")
        self.remove_on_delete = options.get(f"{self.engine}.remove-record-on-delete") == "true"
        self.removing = set(options.get("partial-update.remove-record-on-sequence-group", "").split(",")) - {""}
        self.groups: dict[str, list[str]] = {}
        self.sequences: set[str] = set()
        for key, text in options.items():
            if key.endswith(".sequence-group"):
                fields = key.removeprefix("fields.").removesuffix(".sequence-group").split(",")
                self.groups.update(dict.fromkeys([*text.split(","), *fields], fields))
                self.sequences.update(fields)
        self.order_fields = [name for name in options.get("sequence.field", "").split(",") if name]
        self.sign = -1 if options.get("sequence.field.sort-order") == "descending" else 1

    def fold(self, name: str) -> Fold | None:
        prefix = f"fields.{name}."
        given = {key.removeprefix(prefix): text for key, text in self.options.items() if key.startswith(prefix)}
        function = given.get("aggregate-function", self.options.get("fields.default-aggregate-function"))
        if self.engine == "aggregation":
            if name in self.order_fields:
                function = "last_value"
            elif name in self.keys:
                function = "primary_key"
            return Fold(function or "last_non_null_value", self.columns[name].removesuffix(" NOT NULL"), given)
        if function is None or name in self.keys or name in self.sequences:
            return None
        return Fold(function, self.columns[name].removesuffix(" NOT NULL"), given)

    def before(self, left: Row, right: Row) -> int:
        for name in self.order_fields:
            if result := compare(left[name], right[name]):
                nulls = left[name] is None or right[name] is None
                return result if nulls else result * self.sign
        return compare(left["_SEQUENCE_NUMBER"], right["_SEQUENCE_NUMBER"]) or compare(
            left["_VALUE_KIND"] % 2 == 0, right["_VALUE_KIND"] % 2 == 0
        )

    def merge(self, rows: Sequence[Row], *, drop_deletes: bool) -> list[Row]:
        """Merged rows, sorted by key."""
        from functools import cmp_to_key

        by_key: dict[Any, list[Row]] = {}
        for row in rows:
            key = tuple(repr(row[name]) if isinstance(row[name], float) else row[name] for name in self.keys)
            by_key.setdefault(key, []).append(row)
        merged = []
        for several in by_key.values():
            several = sorted(several, key=cmp_to_key(self.before))
            if len(several) == 1:
                merged.append(dict(several[0]))
                continue
            model = MODELS[self.engine](self)
            for row in several:
                model.add(row)
            if (result := model.result()) is not None:
                merged.append(dict(result))
        if drop_deletes:
            merged = [row for row in merged if row["_VALUE_KIND"] % 2 == 0]

        def by_keys(left: Row, right: Row) -> int:
            return next((c for c in (compare(left[k], right[k]) for k in self.keys) if c), 0)

        return sorted(merged, key=cmp_to_key(by_keys))
