"""``format("paimon")`` on a classic session: loads and saves become the plans that a catalog gives.

Spark makes a relation of its Python source of a load, which reads every file and column through Python, and a write
into that source of a save, which is not shuffled. A rule before the others, a Java class, finds
these nodes and asks Python for ours: the relation of `catalog.frames`, the write of `catalog.table`. It also
finds ``SELECT * FROM paimon.`/path` ``, with ``VERSION AS OF`` or without, in a session without a catalog of that name,
and views of ``CREATE TEMPORARY VIEW … USING paimon``, which Spark makes of its Python source. A node that Python gives
back as it came stays with Spark and the plain source.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from paimon_spark.errors import MissingFileError, PaimonError, StorageError
from paimon_spark.spark.catalog.frames import read_relation, streaming_relation
from paimon_spark.spark.catalog.table import SavedTableProxy
from paimon_spark.spark.hooks.java_rules import add_rule
from paimon_spark.spark.jvm import compat
from paimon_spark.spark.jvm.answer_proxy import java_proxy
from paimon_spark.spark.jvm.features import PATH_TRAVEL, missing_of
from paimon_spark.spark.jvm.gateway import FUNCTION, Gateway, JavaObject, SessionProxy, named_text
from paimon_spark.spark.jvm.plan_tables import java_list, python_struct, renamed, scala_seq
from paimon_spark.spark.jvm.spark_errors import JavaThrownError, thrown
from paimon_spark.spark.session.session_settings import SETTINGS, TIME_ZONE, SessionSettings
from paimon_spark.spark.source.source_options import refused_spark_table, write_request
from paimon_spark.spark.source.write_target import opened_table, shuffle_columns
from paimon_spark.spark.sql.read_version import refuse_second_version
from paimon_spark.table.paths import is_path_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paimon_spark.table.table import FileStoreTable

_FORMAT = "paimon"
_CLASS = "PaimonFormatPlans"


def install_format_plans(gateway: Gateway, state: JavaObject) -> None:
    """Let loads and saves of a session be planned as by a catalog. Does nothing when done.

    Raises:
        JavaCallError: this Spark lacks a class that the rule is made of.
    """
    proxy = (FUNCTION, FormatPlansProxy(gateway, state))
    add_rule(gateway, state, (compat.RESOLUTION_RULES,), _CLASS, proxy, first=True)


def has_format_plans(gateway: Gateway, state: JavaObject) -> bool:
    """Whether loads and saves of a session are planned so."""
    return _CLASS in str(compat.RESOLUTION_RULES.get(gateway, state.analyzer()))


class FormatPlansProxy(SessionProxy):
    """Answers ``java.util.function.Function`` for one session."""

    caller_unwraps = True

    def apply(self, node: JavaObject) -> JavaObject:
        """Return the plan for a node, or the node itself, which Spark's own rules then resolve.

        Raises:
            JavaThrownError: Spark's ``AnalysisException`` for an error of a Python source, with the text of ours.
        """
        try:
            kind = node.getClass().getSimpleName()
            if kind == "UnresolvedDataSource":
                return self._load(node)
            if kind == "UnresolvedRelation":
                return self._by_name(node, node, {})
            if kind == "RelationTimeTravel":
                return self._at_version(node)
            if kind == "CreateTable":
                raise refused_spark_table()
            if kind == "View":
                return self._view(node)
            return self._save(node)
        except PaimonError as error:
            raise self._analysis_error(error) from error

    def _load(self, node: JavaObject) -> JavaObject:
        converters = self.gateway.jvm.scala.jdk.javaapi.CollectionConverters
        given = self.gateway.string_dict(converters.asJava(node.options().originalMap()))
        options = {key.lower(): value for key, value in given.items()}  # as Spark gives them to a Python source
        paths = [str(path) for path in java_list(node.paths())]
        if paths and ("path" in options or "paths" in options):
            return node  # Spark says so
        where = {} if not paths else {"path": paths[0]} if len(paths) == 1 else {"paths": json.dumps(paths)}
        schema = node.userSpecifiedSchema()
        columns = python_struct(schema.get()) if schema.isDefined() else None
        relation = streaming_relation if node.isStreaming() else read_relation
        plan = relation(self.gateway, self.state, {**self._settings(options), **options, **where}, columns)
        return node if plan is None else plan

    def _by_name(self, node: JavaObject, named: JavaObject, version: Mapping[str, str]) -> JavaObject:
        """Return the plan of an ``UnresolvedRelation``, or `node`, which Spark's own rules then resolve."""
        name, path = (str(part) for part in java_list(named.multipartIdentifier()))
        if self.state.catalogManager().isCatalogRegistered(name) or not is_path_name(path):
            return node
        options = self.gateway.string_dict(named.options().asCaseSensitiveMap())
        if version:
            refuse_second_version(options)
        given = {**self._settings(options), **options, **version, "path": path}
        plan = read_relation(self.gateway, self.state, given)
        return node if plan is None else plan

    def _at_version(self, node: JavaObject) -> JavaObject:
        """Return the plan of a path with ``VERSION AS OF`` or ``TIMESTAMP AS OF``; Spark resolves the time first."""
        timestamp = node.timestamp()
        if missing_of(self.gateway, PATH_TRAVEL) or (timestamp.isDefined() and not timestamp.get().resolved()):
            return node
        name, path = (str(part) for part in java_list(node.relation().multipartIdentifier()))
        if self.state.catalogManager().isCatalogRegistered(name):
            # before Spark looks for the path in the catalog again, its rule for files would refuse it
            late = timestamp.isDefined() and is_path_name(path)
            return self.state.analyzer().ResolveRelations().apply(node) if late else node
        zone = self.state.conf().sessionLocalTimeZone()
        spec = compat.TIME_TRAVEL_SPEC.of(self.gateway).create(timestamp, node.version(), zone).get()
        if node.version().isDefined():
            version = {"scan.version": str(spec.version())}
        else:
            version = {"scan.timestamp-millis": str(spec.timestamp() // 1000)}
        return self._by_name(node, node.relation(), version)

    def _view(self, view: JavaObject) -> JavaObject:
        """Return the view over the relation of a load that is made now, with the columns of the view."""
        projects, relation = [], view.child()
        while relation.getClass().getSimpleName() == "Project":  # Spark pads CHAR columns
            projects.append(relation)
            relation = relation.child()
        options = self.gateway.string_dict(relation.options().asCaseSensitiveMap())
        columns = python_struct(relation.schema())
        plan = read_relation(self.gateway, self.state, {**self._settings(options), **options}, columns)
        if plan is None:
            return view
        pairs = zip(java_list(plan.output()), java_list(relation.output()), strict=True)
        same = scala_seq(self.gateway, [renamed(self.gateway, new, old) for new, old in pairs])
        plan = compat.PROJECT(self.gateway, same, plan)
        for above in [*reversed(projects), view]:
            plan = above.withNewChildren(scala_seq(self.gateway, [plan]))
        return plan

    def _save(self, command: JavaObject) -> JavaObject:
        relation = command.table()
        options = self.gateway.string_dict(relation.options().asCaseSensitiveMap())
        if not any(key.lower() == "path" for key in options):
            return command  # a table of Spark's own catalog, which the plain source refuses
        table, opened = relation.table(), self._opened(options)
        values = [relation.productElement(number) for number in range(relation.productArity())]
        given = {**self._settings(options), **options}
        values[0] = java_proxy(SavedTableProxy(self.gateway, str(table.schema().json()), given, opened))
        saved = command.withNewTable(relation.copy(*values))
        query = command.query()
        struct = python_struct(query.schema())
        columns = None if opened is None else shuffle_columns(opened.schema, struct)
        if columns is None:
            return saved
        parser = self.state.sqlParser()
        chosen = scala_seq(self.gateway, [parser.parseExpression(column) for column in columns])
        return saved.withNewQuery(compat.PROJECT(self.gateway, chosen, query))

    def _opened(self, options: Mapping[str, str]) -> FileStoreTable | None:
        request = write_request(options, overwrite=True)
        try:
            return opened_table(request)
        except PaimonError as error:  # it is made, or refused, when the write is planned
            if isinstance(error, StorageError) and not isinstance(error, MissingFileError):
                raise  # a store that does not answer is asked once
            return None

    def _settings(self, options: Mapping[str, str]) -> dict[str, str]:
        """The settings of the session as an option, which readers and writers of Python have put there before."""
        if SETTINGS in options:
            return {}
        conf = self.state.conf()
        zone = str(conf.getConfString(TIME_ZONE))
        return SessionSettings.chosen(self.gateway.string_dict(conf.settings()), zone).option()

    def _analysis_error(self, error: PaimonError) -> JavaThrownError:
        parameters = {"action": "plan", "type": _FORMAT, "msg": named_text(error)}
        message_parameters = compat.PYTHON_UTILS.of(self.gateway).toScalaMap(self.gateway.string_map(parameters))
        made = compat.ANALYSIS_EXCEPTION(self.gateway, "PYTHON_DATA_SOURCE_ERROR", message_parameters)
        return thrown(made)
