"""Hadoop's file system of S3 for a session of these tests: fetched by Maven once, without the SDK of 650 MB."""

from __future__ import annotations

from tests.support.maven_jars import fetched, hadoop_version

_SDK = "2.35.4"


def hadoop_aws_jars() -> list[str]:
    """Paths of the jars, for the version of Hadoop that PySpark has.

    Raises:
        OSError: there is no Maven.
        RuntimeError: it cannot fetch them.
    """
    version = hadoop_version()
    alone = [
        ("org.apache.hadoop", "hadoop-aws", version),
        ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
    ]
    parts = [("software.amazon.awssdk", name, _SDK) for name in ("s3", "s3-transfer-manager", "sts")]
    return fetched(f"hadoop-aws-{version}-{_SDK}", alone, parts)
