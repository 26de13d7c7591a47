"""Hadoop's file systems of Azure and OSS for a session of these tests: fetched by Maven once."""

from __future__ import annotations

from tests.support.maven_jars import fetched, hadoop_version


def hadoop_azure_jars() -> list[str]:
    """Paths of the jars, for the version of Hadoop that PySpark has.

    Raises:
        OSError: there is no Maven.
        RuntimeError: it cannot fetch them.
    """
    version = hadoop_version()
    return fetched(f"hadoop-azure-{version}", [], [("org.apache.hadoop", "hadoop-azure", version)])


def hadoop_aliyun_jars() -> list[str]:
    """Paths of the jars, for the version of Hadoop that PySpark has; raises as `hadoop_azure_jars`."""
    version = hadoop_version()
    return fetched(f"hadoop-aliyun-{version}", [], [("org.apache.hadoop", "hadoop-aliyun", version)])
