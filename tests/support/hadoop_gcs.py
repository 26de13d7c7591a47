"""Hadoop's file system of Google Cloud Storage for a session of these tests: fetched by Maven once."""

from __future__ import annotations

from tests.support.maven_jars import fetched

_VERSION = "hadoop3-2.2.26"


def hadoop_gcs_jars() -> list[str]:
    """Paths of the jars.

    Raises:
        OSError: there is no Maven.
        RuntimeError: it cannot fetch them.
    """
    connector = ("com.google.cloud.bigdataoss", "gcs-connector", _VERSION, "shaded")
    return fetched(f"gcs-connector-{_VERSION}", [connector])
