"""Errors of Spark's that users meet in their first minutes: one sentence of ours, with what to do."""

import logging
import sys
import traceback
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import AnalysisException, PythonException, SparkRuntimeException
from pyspark.errors.exceptions import connect
from pyspark.sql import SparkSession

import paimon_spark
from paimon_spark.errors import DataError, OptionError, PaimonError, UnsupportedError, cutting
from paimon_spark.spark import register_catalog
from paimon_spark.spark.register import _choose_workers
from paimon_spark.spark.session import typed_errors
from paimon_spark.spark.session.typed_errors import remember_catalog_name, typed_error
from paimon_spark.spark.source.worker_process import cut_batches
from paimon_spark.storage.store_options import secret_values

WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/x/pyspark.zip/pyspark/serializers.py", line 483, in loads
    return cloudpickle.loads(obj, encoding=encoding)
ModuleNotFoundError: No module named 'paimon_spark'
 SQLSTATE: 38000"""
SINGLE = (
    "[REQUIRES_SINGLE_PART_NAMESPACE] spark_catalog requires a single-part namespace, but got identifier "
    "`piamon`.`db`.`k`. SQLSTATE: 42K05"
)
NO_TABLE = (
    "[TABLE_OR_VIEW_NOT_FOUND] The table or view `piamon`.`k` cannot be found. Verify the spelling and correctness of "
    "the schema and catalog.\nSearch path: [`system`.`builtin`, `spark_catalog`.`default`]. SQLSTATE: 42P01"
)
NO_SCHEMA = (
    "[SCHEMA_NOT_FOUND] The schema `spark_catalog`.`piamon` cannot be found. Verify the spelling. SQLSTATE: 42704"
)


@pytest.mark.parametrize("kind", [PythonException, connect.PythonException])
def test_workers_without_the_package(kind: Any) -> None:
    error = typed_error(kind(WORKER))
    assert isinstance(error, PaimonError)
    assert isinstance(error, kind)
    text = str(error)
    assert "\n" not in text
    assert "No module named 'paimon_spark'" in text
    assert "spark.stop()" in text
    assert "PYSPARK_PYTHON" in text


@pytest.mark.parametrize("kind", [SparkRuntimeException, connect.SparkRuntimeException])
def test_a_null_that_spark_finds(kind: Any) -> None:
    remember_catalog_name("paimon")
    text = "[NOT_NULL_ASSERT_VIOLATION] NULL value appeared in non-nullable field: \nid\nIf the schema is inferred …"
    error = typed_error(kind(text))
    assert isinstance(error, DataError)
    assert isinstance(error, kind)
    assert str(error) == "[NOT_NULL_ASSERT_VIOLATION] Cannot write null to non-null column(id)."


def test_an_error_on_sail() -> None:
    text = "Write failed: Python error: [PaimonWriter::write] {}: no null.\nTraceback:\nTraceback …:\n  File"
    error = typed_error(connect.AnalysisException(text.format("DataError")))
    assert isinstance(error, DataError)
    assert str(error) == "no null."
    of_task = "\n  An exception was thrown …\nRuntimeError: External error: DataError: no null.\n"
    assert str(typed_error(connect.PythonException(of_task))) == "no null."
    other = connect.AnalysisException(text.format("KeyError"))
    assert typed_error(other) is other


def test_a_module_of_the_user_stays_the_users() -> None:
    error = PythonException(WORKER.replace("paimon_spark", "their_module"))
    assert typed_error(error) is error


def test_a_format_that_is_not_registered() -> None:
    text = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: paimon. Make sure the provider name is correct."
    error = typed_error(AnalysisException(text))
    assert isinstance(error, PaimonError)
    assert "paimon_spark.register(spark)" in str(error)
    other = AnalysisException(text.replace("paimon", "delta"))
    assert typed_error(other) is other


@pytest.mark.parametrize("text", [SINGLE, NO_TABLE, NO_SCHEMA])
@pytest.mark.parametrize("kind", [AnalysisException, connect.AnalysisException])
def test_a_misspelt_catalog(kind: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed_errors, "_catalogs", set())  # other tests have registered some
    remember_catalog_name("paimon")
    error = typed_error(kind(text))
    assert isinstance(error, kind)
    assert str(error).startswith(text[: text.index("]") + 1])
    assert str(error).endswith("There is neither a catalog nor a database `piamon`. Did you mean catalog `paimon`?")
    for other in ("`sales`", "`paimon`"):
        plain = kind(text.replace("`piamon`", other))
        assert typed_error(plain) is plain


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY] Unsupported data source type for direct query: {}; line 1",
            "paimon.database.table",
        ),
        ("[UNRESOLVED_ROUTINE] Cannot resolve routine `sys`.`{}` on search path [`a`.`b`].", "CALL {0}.sys.{0}(…)"),
    ],
)
def test_names_without_their_catalog_or_database(text: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed_errors, "_catalogs", {"paimon"})
    error = typed_error(AnalysisException(text.format("paimon")))
    assert isinstance(error, AnalysisException)
    assert str(error).startswith(text[: text.index("]") + 1])
    assert told.format("paimon") in str(error)
    other = AnalysisException(text.format("hudi").replace("`sys`", "`other`"))
    assert typed_error(other) is other


@pytest.mark.parametrize("kind", [AnalysisException, connect.AnalysisException])
def test_a_catalog_that_is_not_registered(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed_errors, "_catalogs", set())
    error = typed_error(kind(SINGLE.replace("`piamon`", "`paimon`") + "\n\nJVM stacktrace:\nx"))
    assert isinstance(error, kind)
    assert str(error) == (
        "[REQUIRES_SINGLE_PART_NAMESPACE] There is no catalog `paimon` yet: "
        "call paimon_spark.register_catalog(spark, 'paimon', warehouse=…)"
    )
    for text in (SINGLE, NO_TABLE.replace("`piamon`", "`paimon`"), NO_SCHEMA.replace("`piamon`", "`paimon`")):
        plain = kind(text)
        assert typed_error(plain) is plain


SPARK = cast("Any", SimpleNamespace(createDataFrame=None))
ORDERS = {
    "register": lambda: paimon_spark.register(cast("Any", "paimon")),
    "register_catalog": lambda: paimon_spark.register_catalog(cast("Any", "paimon"), SPARK, warehouse="/wh"),
    "name and warehouse": lambda: paimon_spark.register_catalog(SPARK, "/data/wh", warehouse="paimon"),
    "sql": lambda: paimon_spark.sql(cast("Any", "SELECT 1"), SPARK),
    "for_path": lambda: paimon_spark.PaimonTable.for_path(cast("Any", "/wh/db.db/t"), SPARK),
    "for_name": lambda: paimon_spark.PaimonTable.for_name(cast("Any", "paimon.db.t"), SPARK),
    "create": lambda: paimon_spark.PaimonTable.create(cast("Any", "/wh/db.db/t"), SPARK, "id int"),
    "columns": lambda: paimon_spark.PaimonTable.create(SPARK, "id int", "/wh/db.db/t"),
}


@pytest.mark.parametrize("name", ORDERS)
def test_arguments_in_the_wrong_order(name: str) -> None:
    with pytest.raises(OptionError, match=r"takes the (session first|name of the catalog|path before)"):
        ORDERS[name]()


def test_catalogs_that_cannot_be_registered() -> None:
    with pytest.raises(OptionError, match="is a directory, such as '/data/wh', and not None"):
        paimon_spark.register_catalog(SPARK, "paimon", warehouse=cast("Any", None))
    with pytest.raises(OptionError, match="Spark's own catalog"):
        paimon_spark.register_catalog(SPARK, "spark_catalog", warehouse="/wh")
    for kind in ("SparkCatalog", "SparkGenericCatalog"):
        settings = {"spark.sql.catalog.spark_catalog": f"org.apache.paimon.spark.{kind}"}
        with pytest.raises(UnsupportedError, match=rf"{kind}, which needs the connector's jar"):
            register_catalog._refuse_in_session_catalog(settings)
    register_catalog._refuse_in_session_catalog({"spark.sql.catalog.spark_catalog": "org.apache.iceberg.X"})


def test_workers_of_a_cluster_get_a_warning(caplog: pytest.LogCaptureFixture, tmp_path: Any) -> None:
    empty = tmp_path / "python"
    empty.write_text("#!/bin/sh\necho ModuleNotFoundError >&2; exit 1\n")
    empty.chmod(0o755)
    for master, python in (("spark://host:7077", str(empty)), ("spark://host:7077", sys.executable)):
        context = SimpleNamespace(master=master, pythonExec=python)
        with caplog.at_level(logging.WARNING):
            _choose_workers(cast("SparkSession", SimpleNamespace(_sc=context)))
        assert context.pythonExec == python
    [said] = [record.message for record in caplog.records]
    assert f"run {empty}, where paimon_spark cannot be imported" in said
    assert "call spark.stop(), set the environment variable PYSPARK_PYTHON" in said


def _deep(depth: int) -> Any:
    if depth:
        return _deep(depth - 1)
    try:
        raise ValueError("what lies below")
    except ValueError as error:
        raise DataError("a sentence") from error


def test_inner_frames_are_cut() -> None:
    def batches() -> Any:
        yield 1
        yield _deep(9)

    for deed in (lambda: cutting(_deep)(9), lambda: list(cut_batches(batches()))):
        with pytest.raises(DataError) as caught:
            deed()
        printed = "".join(traceback.format_exception(caught.value))
        assert "in _deep" not in printed
        assert "what lies below" not in printed


def test_lists_of_columns_are_no_secrets() -> None:
    given = {"primary-key": "['id']", "bucket-key": "idno", "fields.a.nested-key": "keys", "s3.secret-key": "hush"}
    assert secret_values(given.items()) == ("hush",)
