"""What a session tells outside of its answers: Java's log, and the events that Spark's pages are made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

_LOG4J = """\
status = error
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c %m%n%ex
logger.hadoop.name = org.apache.hadoop
logger.hadoop.level = debug
logger.connector.name = org.apache.spark.sql.execution.datasources
logger.connector.level = debug
"""


def telling(folder: Path) -> dict[str, str]:
    """Settings of a session, before its JVM is started, by which it writes both below a folder."""
    (folder / "events").mkdir()
    (folder / "log4j2.properties").write_text(_LOG4J.format(file=folder / "java.log"))
    return {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
    }


def told(folder: Path, settings: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """The log and the events, once the session is stopped, without the settings that it was given itself."""
    events = "\n".join(path.read_text(errors="replace") for path in (folder / "events").rglob("*") if path.is_file())
    for key, value in settings.items():  # Spark tells those whose names it takes for no secrets
        for name in (key, f"spark.hadoop.{key}"):
            for shown in (f"{json.dumps(name)}:{json.dumps(value)}", f"--conf {name}={value} "):
                events = events.replace(shown, "")
    return {"java": (folder / "java.log").read_text(errors="replace"), "events": events}
