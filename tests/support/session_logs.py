"""What a session tells outside of its answers: Java's log, and the events that Spark's pages are made of."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.request import urlopen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG4J = """\
status = error
rootLogger.level = debug
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c %m%n%ex
"""


def telling(folder: Path) -> dict[str, str]:
    """Settings of a session, before its JVM is started: it writes both below a folder, and serves its pages."""
    (folder / "events").mkdir()
    (folder / "log4j2.properties").write_text(_LOG4J.format(file=folder / "java.log"))
    return {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
    }


def explained(spark: SparkSession, query: str) -> str:
    """What EXPLAIN says of a query in each of its modes."""
    modes = ("", "EXTENDED", "CODEGEN", "COST", "FORMATTED")
    found = "\n".join(str(spark.sql(f"EXPLAIN {mode} {query}").first()) for mode in modes)
    assert "reader=" in found
    return found


def served(spark: SparkSession) -> str:
    """What the session's pages give to whoever asks their REST interface for statements and settings."""
    pages = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
    asked = ("sql?details=true&planDescription=true&length=10000", "environment", "jobs", "stages?details=true")
    found = []
    for each in asked:
        with urlopen(f"{pages}/{each}") as answer:
            found.append(answer.read().decode())
    assert "reader=" in found[0]
    assert "sparkProperties" in found[1]
    return "\n".join(found)


def told(folder: Path, settings: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """The log and the events, once the session is stopped, without the settings that it was given itself."""
    events = "\n".join(path.read_text(errors="replace") for path in (folder / "events").rglob("*") if path.is_file())
    log = (folder / "java.log").read_text(errors="replace")
    return {"java": without(log, settings), "events": without(events, settings)}


def without(text: str, settings: Mapping[str, str]) -> str:
    """A text without the settings that the session was given itself: Spark tells those whose names show no secret."""
    for key, value in settings.items():
        for name in (key, f"spark.hadoop.{key}"):
            for shown in (f"--conf {name}={value} ", f"{name} -> {value}\n"):
                text = text.replace(shown, "")
            text = re.sub(rf"{re.escape(json.dumps(name))}\s*[:,]\s*{re.escape(json.dumps(value))}", "", text)
    return text
