"""What each extra of this package brings, and the command that installs it where this package was installed from."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": ("s3fs>=2024.12",),
    "gcs": ("gcsfs>=2024.12",),
    "azure": ("adlfs>=2024.12",),
    "hdfs": ("hdfs-native>=0.14",),
    "oss": ("ossfs>=2025.5",),
    "postgresql": ("psycopg[binary]>=3.2",),
    "rest": ("requests>=2.31",),
    "mysql": ("pymysql>=1.1",),
    "hive": ("pymetastore>=0.4.2",),
    "hive-kerberos": ("pymetastore>=0.4.2", "gssapi>=1.8"),
    "cli": ("click>=8.1", "rich>=13"),
}
"""As in ``pyproject.toml``."""
_NAME: Final = "paimon-spark"


def pip_command(extra: str) -> str:
    """Return the command that installs an extra.

    It names this package where pip found it by that name. What came from a clone, an address, a wheel or a folder in
    the path of Python pip does not find by a name: there the command names what the extra brings.
    """
    wanted = (f"{_NAME}[{extra}]",) if _found_by_name() else EXTRAS[extra]
    return " ".join(("pip install", *(f"'{requirement}'" for requirement in wanted)))


def _found_by_name() -> bool:
    """Whether pip installed this package from an index: otherwise it keeps the address (PEP 610)."""
    try:
        installed = distribution(_NAME)
    except PackageNotFoundError:
        return False
    return installed.read_text("INSTALLER") is not None and installed.read_text("direct_url.json") is None
