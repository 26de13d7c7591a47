"""What a Python worker pays for before its first row: the source must not import what most reads never use."""

import subprocess
import sys


def test_the_sql_parser_is_imported_for_conditions_only() -> None:
    code = "import sys, paimon_spark.spark.source.data_source; print('sqlglot' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_registering_imports_no_pandas() -> None:
    code = "import sys, paimon_spark.spark.register; print('pandas' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_the_tasks_of_a_read_import_neither_writing_nor_committing() -> None:
    found = "[m for m in sys.modules if m == 'pandas' or m.startswith('paimon_spark.commit')]"
    code = f"import sys, paimon_spark.spark.source.reader; print({found})"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_the_hooks_of_the_format_import_neither_the_sql_parser_nor_the_catalog() -> None:
    found = "[m for m in sys.modules if m == 'sqlglot' or m == 'paimon_spark.spark.catalog.catalog']"
    code = f"import sys, paimon_spark.spark.hooks.install; print({found})"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
