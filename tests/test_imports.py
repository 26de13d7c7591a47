"""What a Python worker pays for before its first row: the source must not import what most reads never use."""

import os
import subprocess
import sys
from pathlib import Path


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


def test_registering_a_catalog_imports_no_sql_parser_and_no_metastore() -> None:
    names = ("sqlglot", "paimon_spark.metastore.hive", "paimon_spark.metastore.jdbc", "paimon_spark.metastore.rest")
    modules = ("register_catalog", "source.data_source", "source.partition_by", "jvm.warm_up", "hooks.install")
    modules += ("hooks.stream_sinks", "jvm.store_settings", "hooks.install_catalog")
    code = (
        f"import importlib, sys\nfor name in {modules}:\n    importlib.import_module(f'paimon_spark.spark.{{name}}')\n"
        f"print([name for name in {names} if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_pyspark_that_is_not_installed_is_reported_in_one_sentence() -> None:
    code = (
        "import importlib.metadata as m, importlib.util as u, sys\n"
        "def version(name): raise m.PackageNotFoundError(name)\n"
        "own = u.find_spec\n"
        "m.version, u.find_spec = version, lambda name, *of: None if name == 'pyspark' else own(name, *of)\n"
        "import paimon_spark\n"
        "for name in ('register', 'register_catalog', 'sql', 'PaimonTable'):\n"
        "    try:\n        getattr(paimon_spark, name)\n"
        "    except paimon_spark.UnsupportedError as error:\n        print(error)\n"
        "paimon_spark.open_table"
    )
    reported = subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()
    assert len(reported) == 4
    assert all("needs PySpark, which is not installed: pip install 'pyspark>=4'" in line for line in reported)


def test_an_old_pyspark_is_reported_in_one_sentence(tmp_path: Path) -> None:
    about = tmp_path / "pyspark-3.5.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark\nVersion: 3.5.1\n")
    code = (
        "import paimon_spark\n"
        "for name in ('register', 'register_catalog', 'sql', 'PaimonTable'):\n"
        "    try:\n        getattr(paimon_spark, name)\n"
        "    except paimon_spark.UnsupportedError as error:\n        print(error)\n"
        "paimon_spark.open_table"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    reported = subprocess.check_output([sys.executable, "-c", code], text=True, env=environment).splitlines()
    assert len(reported) == 4
    assert all("needs PySpark 4, and this is PySpark 3.5.1" in line for line in reported)
