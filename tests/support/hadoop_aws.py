"""Hadoop's file system of S3 for a session of these tests: fetched by Maven once, without the SDK of 650 MB."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import uuid
from pathlib import Path

import pyspark

from tests.oracle.paimon_oracle import cache_dir

_SDK = "2.35.4"
_IN_SPARK = re.compile(r"^(slf4j-api|commons-|netty-(?!nio-client)|http(core|client)-)")
"""Jars that PySpark has, in versions of its own."""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>t</groupId><artifactId>t</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies></project>"""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def hadoop_aws_jars() -> list[str]:
    """Paths of the jars, for the version of Hadoop that PySpark has.

    Raises:
        OSError: there is no Maven.
        RuntimeError: it cannot fetch them.
    """
    spark = Path(pyspark.__file__).parent / "jars"
    (client,) = spark.glob("hadoop-client-api-*.jar")
    version = client.stem.rpartition("-")[2]
    folder = Path(cache_dir()) / f"hadoop-aws-{version}-{_SDK}"
    if not folder.exists():
        wanted = [
            ("org.apache.hadoop", "hadoop-aws", version, _ALONE),
            ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1", _ALONE),
            *(("software.amazon.awssdk", name, _SDK, "") for name in ("s3", "s3-transfer-manager", "sts")),
        ]
        dependencies = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{number}</version>{rest}"
            "</dependency>"
            for group, name, number, rest in wanted
        )
        aside = folder.with_name(f"{folder.name}.{uuid.uuid4().hex[:8]}")
        aside.mkdir(parents=True)
        try:
            _fetch(_POM.format(dependencies=dependencies), aside)
            aside.replace(folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return sorted(map(str, (folder / "jars").glob("*.jar")))


def _fetch(pom: str, folder: Path) -> None:
    (folder / "pom.xml").write_text(pom)
    arguments = shlex.split(os.environ.get("PAIMON_ORACLE_MVN_ARGS", ""))
    command = ["mvn", "-B", "-ntp", "-q", *arguments, "dependency:copy-dependencies", "-DoutputDirectory=jars"]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"Maven cannot get hadoop-aws: {done.stdout[:200]}")
    for jar in (folder / "jars").iterdir():
        if _IN_SPARK.match(jar.name):
            jar.unlink()
