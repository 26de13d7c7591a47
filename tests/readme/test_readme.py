"""The README and the pages in docs/ tell the truth: snippets run, tables are current, every example runs."""

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.readme import kind_table, option_table
from tests.readme.notebook import NOTEBOOKS, comparable, run_cells, stored_outputs
from tests.readme.procedure_table import PAGE, with_procedures
from tests.support.programs import run_program
from tests.support.seeds import part_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = (
    "README.md",
    "docs/reading.md",
    "docs/streams.md",
    "docs/merging.md",
    "docs/time_travel.md",
    "docs/upkeep.md",
    "docs/writing.md",
    "docs/sql.md",
    "docs/tables.md",
    "docs/arrow.md",
    "docs/storage.md",
    "docs/catalog_directory.md",
    "docs/catalog_jdbc.md",
    "docs/catalog_hive.md",
    "docs/catalog_rest.md",
    "docs/iceberg.md",
)
"""The documents whose snippets run, each in its order."""
INTERNALS = "docs/internals/"
"""The folder of documents that show pieces of Spark or of a plan, not programs of users."""
_REST = "http://localhost:8080"
_HIVE = "thrift://localhost:9083"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_the_table_of_options_is_current() -> None:
    page = option_table.PAGE.read_text(encoding="utf-8")
    assert option_table.with_table(page) == page, "run: python tests/readme/option_table.py"


def test_the_list_of_procedures_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_procedures(page) == page, "run: python tests/readme/procedure_table.py"


@pytest.mark.thorough
@pytest.mark.spark
def test_the_table_of_kinds_is_what_the_kinds_do(spark: "SparkSession") -> None:
    page, kinds = kind_table.PAGE.read_text(encoding="utf-8"), list(kind_table.kinds())
    tried = part_of(kinds)
    left_out = [f"| {kind.name} | " for kind in kinds if kind not in tried]
    shown = page.partition(f"{kind_table.BEGIN}\n")[2].partition(f"\n{kind_table.END}")[0].splitlines(keepends=True)
    assert len(shown) == len(kinds) + 2
    assert kind_table.table(spark.newSession(), tried) == "".join(
        line for line in shown if not line.startswith(tuple(left_out))
    ), "run: python tests/readme/kind_table.py"


def snippets(page: str) -> list[str]:
    """The Python in a document of the repository."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)


def test_every_document_with_snippets_is_run() -> None:
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    documents = {path.relative_to(ROOT).as_posix() for path in files}
    users = {document for document in documents if not document.startswith(INTERNALS)}
    assert {document for document in users if snippets(document)} == set(PAGES)


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("page", PAGES)
def test_the_snippets_run_in_their_order(
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    page: str,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {
        "spark": spark,
        "df": spark.createDataFrame([(1, "a"), (2, "b")], "id long, state string"),
    }
    for number, snippet in enumerate(snippets(page)):
        code = snippet.replace("/data/wh", str(tmp_path / "wh"))
        if _REST in code:
            server = request.getfixturevalue("rest")
            code = code.replace(_REST, server.uri).replace("my_catalog", "wh")
            monkeypatch.setenv("PAIMON_TOKEN", server.options()["token"])
            # other tests have the same server, which forgets no table when its database goes
            code += 'spark.sql("DROP TABLE lake.sales.orders")\nspark.sql("DROP DATABASE lake.sales CASCADE")\n'
        if _HIVE in code:
            code = code.replace(_HIVE, request.getfixturevalue("hive").uri)
            code += 'spark.sql("DROP DATABASE hive.sales CASCADE")\n'  # other tests have the same metastore
        exec(compile(code, f"{page}, snippet {number + 1}", "exec"), names)
    if page == "README.md":
        whole = names["whole"]
        assert isinstance(whole, list)
        assert [tuple(row) for row in whole] == [(1, 3, "shipped", 2, "invoice"), (2, 1, "created", None, None)]


def of_a_new_user(home: Path) -> dict[str, str]:
    """An environment where the workers' Python is not named, and the first one in PATH lacks the package, as often."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "PYTHON"))}
    nobody = home / "bin" / "python3"
    nobody.parent.mkdir()
    nobody.write_text("#!/bin/sh\necho ModuleNotFoundError >&2; exit 1\n")
    nobody.chmod(0o755)
    return {**environment, "PATH": f"{nobody.parent}{os.pathsep}{environment['PATH']}"}


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("number", range(len(snippets("README.md"))))
def test_each_block_of_the_readme_can_be_pasted_into_a_fresh_interpreter(tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-c", snippets("README.md")[number]]
    done = run_program(command, tmp_path, of_a_new_user(tmp_path))
    assert done.code == 0, done.out + done.err


def test_the_readme_is_for_skimming() -> None:
    """The claim, a first block, the two commands side by side, one picture, the comparison; no table of kinds."""
    claim, block, shell = r"\n\*\*Apache Paimon", r"\n```python\n", r"\n```sh\npython3 -m venv"
    pieces = (claim, block, shell, r"\n!\[", r"\n\| \| paimon_spark \|")
    places = [[found.start() for found in re.finditer(piece, README)] for piece in pieces]
    assert [at[0] for at in places] == sorted(at[0] for at in places)
    assert len(places[3]) == 1
    commands = README[places[2][0] :].partition("```sh\n")[2].partition("```")[0]
    assert "examples/quickstart.py" in commands
    assert "python3 tests/run.py" in commands
    assert "--without-pip" not in README
    first = [line for line in snippets("README.md")[0].splitlines() if line.strip() and "import" not in line]
    assert len(first) <= 10


@pytest.mark.turns("program")
@pytest.mark.thorough
@pytest.mark.spark
def test_the_readme_can_be_pasted_into_a_jupyter_kernel(tmp_path: Path) -> None:
    from jupyter_client.manager import start_new_kernel

    environment = of_a_new_user(tmp_path)
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path), env=environment)
    reported: list[str] = []
    try:
        for number, snippet in enumerate([*snippets("README.md"), "table", "spark.stop()"]):
            reported.clear()
            answer = client.execute_interactive(
                snippet, timeout=240, output_hook=lambda message: reported.append(str(message["content"]))
            )
            shown = "".join(reported)
            assert answer["content"]["status"] == "ok", f"block {number + 1}: {shown}"
            if snippet == "table":
                assert "paimon-table" in shown, shown
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.spark
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_run(example: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-X", "faulthandler", "-u", str(example), str(tmp_path)]
    environment = {key: value for key, value in os.environ.items() if key != "PYSPARK_PYTHON"}
    done = run_program(command, tmp_path, environment)
    out = done.out
    assert done.code == 0, out + done.err
    if example.name == "quickstart.py":
        assert re.search(r"\|1 +\|3 +\|shipped\|19\.90 *\|5 +\|invoice\|2024-05-02 08:00:00\|", out)
        assert re.search(r"\|2 +\|2 +\|packed *\|7\.50 *\|2 +\|card *\|2024-05-01 10:30:00\|", out)
        assert re.search(r"\|1 +\|3 +\|shipped\|19\.90 *\|NULL +\|NULL +\|NULL +\|", out)
    if example.name == "history.py":
        tables = re.findall(r"((?:\|(?:ink|pen|paper) +\|\d+ *\|\n)+)", out)
        shown = [re.findall(r"\|(\w+) +\|(\d+)", table) for table in tables]
        monday, tuesday = [("ink", "480"), ("pen", "120")], [("ink", "480"), ("paper", "300"), ("pen", "150")]
        assert shown == [monday, tuesday[1:], tuesday, monday]
        assert "on the branch: Row(article='ink', cents=240) in the table: Row(article='ink', cents=480)" in out
        assert "Snapshots that went: 2" in out
    if example.name == "time_travel.py":
        assert re.search(r"\| +chair\| +40\|\n\| +table\| +120\|\n\+", out)
        assert re.search(r"\| +chair\| +40\| +45\|", out)
        assert re.search(r"\|3 +\|1 +\|", out)  # rolled back from snapshot 3 to 1
    if example.name == "streams.py":
        assert "The first run: [('ink', 480), ('pen', 120)]" in out
        assert "The second run: [('-D', 'pen', 120), ('-U', 'ink', 480), ('+U', 'ink', 500), ('+I', 'paper', 300)]" in (
            out
        )
    if example.name == "sql_catalog.py":
        assert re.search(r"\|lamp +\|-1 +\|NULL *\|2024-05-03\|", out)
        assert re.search(r"\|chair +\|8 +\|\n\|lamp +\|6 +\|\n\|table +\|3 +\|", out)
        assert re.search(r"columns=\[article, pieces\], filter=\[.*files=1\b", out)
        assert re.search(r"\|6 +\|2024-05-03\|", out)


@pytest.mark.turns("program")
@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_the_notebooks_show_what_their_cells_give(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notebook: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    try:
        outputs = run_cells(notebook, {})
    finally:
        spark.conf.unset("spark.sql.repl.eagerEval.enabled")
    assert comparable(outputs) == comparable(stored_outputs(notebook)), "run: python tests/readme/notebook.py"
    assert {"text/html", "image/svg+xml"} <= {kind for made in outputs for one in made for kind in one.get("data", {})}


def test_the_commands_name_what_exists() -> None:
    for path in (*(f"examples/{example.name}" for example in (*EXAMPLES, *NOTEBOOKS)), "tests/run.py"):
        assert path in README
        assert (ROOT / path).exists()
