"""Proxies of which Java knows the answers: Python is asked once for each decision, in one JSON text.

An `AnswerProxy` says in advance what Spark will want to know of it (`answers`), which calls may wait for the next
question (`noted`) and which are questions (`asked`). ``PaimonProxy`` in the JVM does the rest. A method with a default
in Java that the class does not define is Java's own; all other calls reach the proxy as those of any `Proxy`.

Values are JSON, or a list whose first element says what Java makes of the others:

===================================== =====================================================
``["struct", json]``                  a ``StructType``, or another ``DataType``
``["columns", json]``                 the same as ``Column[]``
``["strings", [...]]``                a ``String[]``; ``["set", [...]]``, ``["map", {...}]`` collections of strings
``["constants", class, [...]]``       a set of constants of an enum, ``["constant", class, name]`` one of them
``["none of", class]``                an empty array
``["identity", [...]]``               ``Transform[]`` of columns; ``["references", [...]]`` ``NamedReference[]``
``["identifiers", [...], [...]]``     ``Identifier[]``: the namespace, the names
``["metadata", [[name, json, null]]]`` ``MetadataColumn[]``
``["statistics", rows, bytes, [...]]`` ``Statistics``, with those of columns; ``["long", n]`` an ``OptionalLong``
``["picked", [...]]``                 those elements of the question's first argument, an array
``["proxy", {...}]``                   a proxy of Java (`described_proxy`); ``["list", [...]]`` a ``List`` of values
``["rows", json, pickle]``            ``InternalRow[]`` (`LocalRowsProxy`)
``["arrow rows", json, stream]``      the same of a stream of Arrow (`LocalRowsProxy`)
``["memory batch", json, pickle]``    a ``Batch`` of such rows (`driver_read`)
``["python batch", ...]``             a ``PythonBatch`` (`basic_scan`); ``["parquet batch", {...}]`` (`native_scan`)
``["bucketed batch", batch, [...]]``  that batch, its partitions with their buckets (`scan_plan`)
``["v1 table", {...}]``               a ``V1Table`` of Spark's own: a view, or a table that Spark's sources read
``["file scan", {...}]``              a ``ScanBuilder`` of one of Spark's own sources of files (`format_table`)
``["partitions of", batch]``          its ``InputPartition[]``; its ``createReaderFactory`` is answered from then on
``["metrics", [[kind, name, text]]]`` ``CustomMetric[]`` (`node_metrics`); ``["metric values", {...}]``
                                      ``CustomTaskMetric[]``
``["clustered", [...]]``              a ``Distribution`` by columns; of none, one that says nothing
``["parameters", [[name, json, bool]]]`` ``ProcedureParameter[]``, and whether each must be given
``["offset", json]``                  an ``Offset`` of a stream; ``["limit", rows]`` a ``ReadLimit`` (null: none)
===================================== =====================================================

Python hands over what Java then answers by itself to ``PaimonEntry`` of the JVM.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError

from paimon_spark.errors import UnsupportedError
from paimon_spark.spark.jvm.features import CATALOG
from paimon_spark.spark.jvm.gateway import JavaObject, Proxy, is_java_name
from paimon_spark.spark.jvm.java_sources import new_object

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paimon_spark.spark.jvm.gateway import Gateway


_ENTRIES: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def java_entry(gateway: Gateway) -> JavaObject:
    """The object of a JVM.

    Raises:
        UnsupportedError: this Spark lacks something that the Java classes use.
    """
    if gateway.gateway not in _ENTRIES:
        try:
            _ENTRIES[gateway.gateway] = new_object(gateway, "PaimonEntry")
        except (Py4JError, TypeError) as error:
            reason = str(error).partition("\n\tat ")[0]
            raise UnsupportedError(f"On this Spark version {CATALOG.loss} ({reason})") from error
    return _ENTRIES[gateway.gateway]


Value = Any
"""JSON, or a list that `answer_proxy` describes."""


@dataclass(frozen=True)
class Question:
    """A call of Spark's that Python decides."""

    arguments: Sequence[Any]
    """As ``PaimonArguments`` encodes them."""
    settings: Mapping[str, str]
    """Those settings of the session that the proxy wants, as far as they are set."""
    described: bool = False
    """Of ``estimateStatistics``: whether DESCRIBE TABLE asks."""


@dataclass(frozen=True)
class Reply:
    """The answer, and what Java keeps of it."""

    value: Value = None
    once: bool = False
    """Whether the same question has this answer from now on."""
    repeated: bool = False
    """Whether it has this answer if its arguments are the same as this time."""
    remember: Mapping[str, Value] = field(default_factory=dict)
    """Answers of other methods, from now on."""
    forget: Sequence[str] = ()
    """Methods whose answers count no longer."""
    keep: Sequence[int] | None = None
    """Elements of the first argument, an array, to which later answers point."""


class AnswerProxy(Proxy):
    """A proxy that can tell Java in advance what it will answer."""

    noted: ClassVar[Mapping[str, tuple[str, Value]]] = {}
    """Java's method: the method of this class called before the next question, and what Java returns at once."""
    asked: ClassVar[Mapping[str, str]] = {}
    """Java's method: the method of this class that makes a `Reply` of a `Question`."""
    settings: ClassVar[tuple[str, ...]] = ()
    """Keys of the session's settings that questions bring along; a prefix ends in a dot."""
    defined: ClassVar[Sequence[str]] = ()
    """The methods of this class that Java may call."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Note the methods."""
        super().__init_subclass__(**kwargs)
        cls.defined = [name for name in dir(cls) if is_java_name(name) and callable(getattr(cls, name))]

    def answers(self) -> dict[str, Value]:
        """What methods answer whatever their arguments are."""
        return {}

    def _for_java(self) -> Any:
        return java_proxy(self)

    def ask(self, method: str, request: str) -> str:
        """A question of Java's, as JSON."""
        given = json.loads(request)
        for name, arguments in given["before"]:
            getattr(self, self.noted[name][0])(*arguments)
        question = Question(given["arguments"] or (), given["settings"], given.get("described", False))
        reply: Reply = getattr(self, self.asked[method])(question)
        return json.dumps({key: value for key, value in _fields(reply).items() if value is not None})


def _fields(reply: Reply) -> dict[str, Any]:
    """The fields of a reply, their values as they are."""
    return {name: getattr(reply, name) for name in reply.__dataclass_fields__}


def described_proxy(proxy: AnswerProxy) -> Value:
    """The value by which Java makes a proxy of its own. The Python object lives until Java collects that one."""
    return [
        "proxy",
        {
            "id": proxy.gateway.gateway.gateway_property.pool.put(proxy),
            "interfaces": list(proxy.interfaces),
            "text": proxy.toString(),
            "answers": proxy.answers(),
            "noted": {name: value for name, (_, value) in proxy.noted.items()},
            "asked": list(proxy.asked),
            "defined": proxy.defined,
            "settings": list(proxy.settings),
        },
    ]


def java_proxy(proxy: AnswerProxy) -> JavaObject:
    """The proxy that Java makes of it, to be handed to the JVM."""
    return java_entry(proxy.gateway).apply(proxy, json.dumps(described_proxy(proxy)[1]))


def none_of(class_name: str) -> Value:
    """An empty array."""
    return ["none of", class_name]
