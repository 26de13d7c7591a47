"""Streams of tables of a catalog are marked as such, from Spark 4.3 on, by an option of ours.

There a catalog is given the options that say which version of a table is meant, and answers with the columns of that
version. A stream has the latest columns wherever it begins, but a catalog is not told what a table is loaded for. The
rule that says so is a Java class.
"""

from __future__ import annotations

from paimon_spark.spark.catalog.loading import STREAMED
from paimon_spark.spark.jvm import compat, features
from paimon_spark.spark.jvm.gateway import Gateway, JavaObject
from paimon_spark.spark.jvm.rules import add_rule


def install_streamed_tables(gateway: Gateway, state: JavaObject) -> None:
    """Mark the streams of a session. Does nothing where Spark gives a catalog no options, or when done.

    Raises:
        Py4JError: this Spark lacks a class that the rule is made of.
    """
    if features.spark_version(gateway) >= (4, 3):
        catalogs = ("org.apache.spark.sql.connector.catalog.CatalogManager", state.catalogManager())
        mark = ("java.lang.String", STREAMED)
        add_rule(gateway, state, (compat.HINT_RULES,), "PaimonStreamedTables", catalogs, mark)
