"""Fixtures that every test folder shares: the golden tables, the Java oracle, one Spark session."""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pytest
from hypothesis import settings

from tests.support import class_archive, seeds
from tests.support.selection import by_length, choose_part, choose_quick, lengths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent

# Times of single examples say nothing on a machine that others use too.
settings.register_profile("shared_machine", deadline=None)
settings.load_profile("shared_machine")

# Spark's tasks must run on the interpreter (and so the packages) that runs the tests.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
# As in pyproject.toml, for the JVMs of the processes that tests start: their jobs are short too.
os.environ.setdefault("JAVA_TOOL_OPTIONS", class_archive.JVM_OPTIONS)
# Where tests/run.py has made the archive of Spark's classes, each driver maps it.
os.environ.setdefault(class_archive.VARIABLE, class_archive.java_options(class_archive.archive_file()))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="the short tests, one of each function: under 3 minutes on two cores"
    )
    parser.addoption(
        "--part", action="store_true", help="a fifth of the cases of each long test function, other ones each day"
    )
    parser.addoption("--every-store-case", action="store_true", help="all acceptance cases on each store: 40 minutes")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--part"):
        os.environ[seeds.IN_PART] = "true"


def pytest_report_header() -> str:
    return f"random tests: {seeds.VARIABLE}={seeds.RUN}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seconds = lengths()
    if config.getoption("--quick"):
        config.hook.pytest_deselected(items=choose_quick(items, seconds))
    elif config.getoption("--part"):
        config.hook.pytest_deselected(items=choose_part(items, seconds, seeds.DAY))
    by_length(items, seconds)


def absent(what: str) -> None:
    """Skip loudly where a peer is not on this machine; in CI that is a failure."""
    message = f"{what} is missing"
    if os.environ.get("CI"):
        pytest.fail(f"{message}, and CI must not skip")
    pytest.skip(message)


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of golden tables, unpacked."""
    from tests.support.golden_archives import golden_folder

    return golden_folder()


def leave_foreign_errors() -> None:
    """Let errors of another JVM than Spark's pass PySpark as they are.

    PySpark looks at each Java exception of the process by asking its own JVM for the object of that number: for one of
    the oracle's that is any object, or none, and the error that came of it depended on what had run before.
    """
    from pyspark import SparkContext
    from pyspark.errors.exceptions import captured

    convert = captured.convert_exception

    def convert_own(error: Any) -> Any:
        spark = SparkContext._gateway
        if error is not None and (spark is None or error._gateway_client is not spark._gateway_client):
            return captured.UnknownException.__new__(captured.UnknownException)
        return convert(error)

    captured.convert_exception = convert_own


def look_up_once() -> None:
    """Let py4j find its class for type tests once for a JVM, and not in three calls for each test.

    PySpark tests each Java exception against 20 classes. To look for `py4j` the JVM searches 280 jars ten times: two
    thirds of all look-ups of names in a test file.
    """
    from py4j import java_gateway

    original = java_gateway.is_instance_of
    helpers: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def is_instance_of(gateway: Any, java_object: Any, java_class: Any) -> bool:
        if not isinstance(java_class, str):
            return bool(original(gateway, java_object, java_class))
        if gateway not in helpers:
            helpers[gateway] = gateway.jvm.py4j.reflection.TypeUtil
        return bool(helpers[gateway].isInstanceOf(java_class, java_object))

    java_gateway.is_instance_of = is_instance_of


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The official Java Paimon, one JVM for the whole run; its warehouse is a temporary folder."""
    from tests.oracle.paimon_oracle import PaimonOracle

    try:
        opened = PaimonOracle(str(tmp_path_factory.mktemp("oracle_warehouse")))
    except (OSError, RuntimeError) as error:  # its jar is fetched by Maven once
        absent(f"the Java oracle ({' '.join(str(error).split())[:200]})")
    leave_foreign_errors()
    with opened:
        yield opened


def _running(server: AbstractContextManager[Any], what: str) -> Iterator[Any]:
    """A server, while the run lasts."""
    with ExitStack() as started:
        try:
            opened = started.enter_context(server)
        except (OSError, RuntimeError) as error:
            absent(f"{what} ({' '.join(str(error).split())[:300]})")
        yield opened


@pytest.fixture(scope="session")
def rest() -> Iterator[Any]:
    """Java's server of REST catalogs (`tests/support/rest_server.py`), one for the whole run."""
    from tests.support.rest_server import rest_server

    yield from _running(rest_server(), "Java's REST catalog server")


@pytest.fixture(scope="session")
def iceberg_rest() -> Iterator[Any]:
    """Iceberg's REST catalog (`tests/support/iceberg_rest_server.py`), one for the whole run."""
    from tests.support.iceberg_rest_server import iceberg_rest_server

    yield from _running(iceberg_rest_server(), "Iceberg's REST catalog")


@pytest.fixture(scope="session")
def hive() -> Iterator[Any]:
    """Hive's metastore (`tests/support/hive_server.py`), one for the whole run."""
    from tests.support.hive_server import hive_server

    yield from _running(hive_server(), "Hive's metastore")


@pytest.fixture(scope="module")
def warehouse(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a new warehouse, shared by the tests of a module.

    With `pytest.mark.catalog(name, database="db", current=False, by_text=False)` among the module's marks the fixture
    `spark` has it as an SQL catalog of that name, in which the database is made (`tests/support/warehouses.py`).
    """
    path = tmp_path_factory.mktemp("warehouse")
    mark = request.node.get_closest_marker("catalog")
    if mark is None:
        yield path
        return
    from tests.support.warehouses import in_use

    yield from in_use(request.getfixturevalue("spark"), *mark.args, path, **{"current": False, **mark.kwargs})


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "SparkSession":
    """One classic Spark session on two cores, time zone UTC, that knows the format `paimon`.

    It is pytest-spark's `spark_session`, with the options in pyproject.toml and directories of this run.
    """
    from pytest_spark.config import SparkConfigBuilder

    warehouse = tmp_path_factory.mktemp("spark_warehouse")
    options = SparkConfigBuilder().get()
    options.set("spark.sql.warehouse.dir", str(warehouse))
    java = options.get("spark.driver.extraJavaOptions")
    options.set("spark.driver.extraJavaOptions", f"{java} -Dderby.system.home={warehouse}")
    session: SparkSession = request.getfixturevalue("spark_session")
    session.sparkContext.setLogLevel("OFF")
    look_up_once()

    import paimon_spark

    paimon_spark.register(session)
    return session


@pytest.fixture
def reads_by_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are read by tasks, too, as many are, and not by the driver."""
    from paimon_spark.spark.catalog import scan

    monkeypatch.setattr(scan, "read_here", lambda *_: None)


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Spark Connect server, one for the whole run."""
    pytest.importorskip("grpc")
    from tests.support.connect_server import connect_server

    with connect_server(tmp_path_factory.mktemp("connect")) as url:
        yield url
