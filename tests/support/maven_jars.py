"""Jars that tests need alongside PySpark's: fetched by Maven once, into the cache of the oracle."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

import pyspark

from tests.oracle.paimon_oracle import cache_dir

_IN_SPARK = re.compile(r"^(slf4j-api|commons-|netty-(?!nio-client)|http(core|client)-)")
"""Jars that PySpark has, in versions of its own."""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>t</groupId><artifactId>t</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies></project>"""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"

Artifact = tuple[str, ...]
"""Group, name and version; a classifier and a type too where there are such."""


def spark_jars() -> list[str]:
    """Paths of PySpark's jars."""
    return sorted(map(str, (Path(pyspark.__file__).parent / "jars").glob("*.jar")))


def hadoop_version() -> str:
    """The version of Hadoop that PySpark has."""
    (client,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    return client.stem.rpartition("-")[2]


def fetched(name: str, alone: Sequence[Artifact], whole: Sequence[Artifact] = ()) -> list[str]:
    """Paths of jars.

    Args:
        name: of their directory in the cache; it names the versions.
        alone: fetched without what they need, also where PySpark has them.
        whole: fetched with what they need, but for what PySpark has.

    Raises:
        OSError: there is no Maven.
        RuntimeError: it cannot fetch them.
    """
    folder = Path(cache_dir()) / name
    if not folder.exists():
        wanted = [*((artifact, _ALONE) for artifact in alone), *((artifact, "") for artifact in whole)]
        parts = ("groupId", "artifactId", "version", "classifier", "type")
        dependencies = "".join(
            "<dependency>"
            + "".join(f"<{part}>{value}</{part}>" for part, value in zip(parts, artifact, strict=False))
            + f"{rest}</dependency>"
            for artifact, rest in wanted
        )
        aside = folder.with_name(f"{folder.name}.{uuid.uuid4().hex[:8]}")
        aside.mkdir(parents=True)
        try:
            _fetch(name, _POM.format(dependencies=dependencies), aside)
            named = {f"{artifact}-{version}.jar" for _, artifact, version, *_ in alone}
            for jar in (aside / "jars").iterdir():
                if _IN_SPARK.match(jar.name) and jar.name not in named:
                    jar.unlink()
            aside.replace(folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return sorted(map(str, (folder / "jars").iterdir()))


def _fetch(name: str, pom: str, folder: Path) -> None:
    (folder / "pom.xml").write_text(pom)
    arguments = shlex.split(os.environ.get("PAIMON_ORACLE_MVN_ARGS", ""))
    command = ["mvn", "-B", "-ntp", "-q", *arguments, "dependency:copy-dependencies", "-DoutputDirectory=jars"]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"Maven cannot get {name}: {done.stdout[:200]}")
