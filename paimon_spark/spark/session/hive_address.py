"""Where the Hive metastore of a catalog is that names none, and who asks it: what the session has set for Spark's own.

As in Java, options of the catalog count before settings of the session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from paimon_spark.metastore.hive_sasl import ENABLED
from paimon_spark.metastore.opening import kind_of, lock_type
from paimon_spark.spark.session.session_settings import every_setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_URIS: Final = "hive.metastore.uris"
_NAMED_BY: Final = ("uri", "hive-conf-dir", _URIS)
_HADOOP: Final = "spark.hadoop."
_KERBEROS: Final = {
    ENABLED: f"{_HADOOP}{ENABLED}",
    "hive.metastore.kerberos.principal": f"{_HADOOP}hive.metastore.kerberos.principal",
    "security.kerberos.login.principal": "spark.kerberos.principal",
    "security.kerberos.login.keytab": "spark.kerberos.keytab",
}
"""Options of a catalog, and the setting of a session that stands for each."""


def with_hive_address(spark: SparkSession, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a catalog, those of Hive's metastore with what the session has set and no option says."""
    if "hive" not in (kind_of(options), lock_type(options)) or options.get("hive-conf-dir"):
        return dict(options)
    known = every_setting(spark)
    found = {key: known[setting] for key, setting in _KERBEROS.items() if known.get(setting)}
    if not any(options.get(key) for key in _NAMED_BY) and known.get(f"{_HADOOP}{_URIS}"):
        found["uri"] = known[f"{_HADOOP}{_URIS}"]
    given = {**found, **options}
    wants_kerberos = given.get(ENABLED, "").strip().lower() == "true"
    return given if wants_kerberos else {key: given[key] for key in given if key in options or key not in _KERBEROS}
