"""The layers of the package, kept by its syntax trees (imports inside functions and under TYPE_CHECKING count too)."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# A module imports only from layers above its own; `read` and `write` share a height and never import each other.
HEIGHTS = {
    "errors": 0,
    "memory": 0,
    "options": 1,
    "spec": 2,
    "storage": 3,
    "metastore": 4,
    "table": 5,
    "merge": 6,
    "read": 7,
    "write": 7,
    "commit": 8,
    "maintain": 9,
    "display": 9,
    "arrow": 10,
    "spark": 10,
    "cli": 10,
}
# The rooms of a layer (and modules alongside them), each above those that it imports.
ROOM_HEIGHTS = {
    "maintain": {
        "files": 0,
        "refs": 1,
        "expire": 1,
        "after_commit": 2,
        "compact": 3,
        "column_update": 5,
        "row_deletion": 4,
        "committed_write": 4,
        "cross_partition_write": 0,
        "row_level": 6,
        "purge": 3,
        "copy_table": 1,
        "migration": 0,
        "reassign_row_ids": 0,
    },
    "spark": {
        "columns": 0,
        "session": 1,
        "statements": 1,
        "source": 2,
        "jobs": 3,
        "sql": 4,
        "jvm": 5,
        "pushdown": 5,
        "catalog": 6,
        "hooks": 7,
        "register": 8,
        "table": 9,
        "text": 10,
        "connect": 11,
        "register_catalog": 12,
    },
}
ONLY_FOR = {"merge": {"errors", "memory", "options", "spec"}}  # narrower than its height

# Third-party package -> the places (folder or module) that may import it.
PLACES = {
    "pyspark": ("paimon_spark/spark/", "pyspark_paimon/"),
    "py4j": ("paimon_spark/spark/jvm/",),
    "fsspec": ("paimon_spark/storage/store_opening.py",),
    "fastavro": ("paimon_spark/spec/avro_codec.py", "paimon_spark/storage/avro_format.py"),
    # conditions; and whole statements, whose tables paimon_spark.sql finds where Spark offers no catalog
    "sqlglot": ("paimon_spark/spec/sql_filter.py", "paimon_spark/spark/statements/"),
    "click": ("paimon_spark/cli/",),
    "rich": ("paimon_spark/cli/",),
    "pandas": (),
}
PRIVATE_MEMBERS = re.compile(
    r"jvm\.org\.apache\.spark\.(?!sql\.(?:connector|types|util)\b)[\w.]+|jvm\.(?:org\.codehaus|net)\.[\w.]+"
    r"|\.(?:private_field|setAccessible|getDeclaredField)\(|\._(?:jsparkSession|jvm|jdf|jwrite|jreader)\b"
)
MAX_MODULE_LINES = 600
MAX_FUNCTION_STATEMENTS = 40


def imported_names(tree: ast.Module, module: str, *, is_package: bool) -> set[str]:
    """Absolute dotted names a module imports, wherever in the file."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".") if is_package else module.split(".")[:-1]
            start = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            origin = ".".join(part for part in (start, node.module or "") if part)
            names |= {f"{origin}.{alias.name}" for alias in node.names}
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("importlib.import_module", "import_module", "__import__")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            names.add(str(node.args[0].value))
    return names


def layer(module: str) -> str:
    """The layer of a dotted module name of the package ('' for the package itself)."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in HEIGHTS else ""


def layer_offences(module: str, names: set[str]) -> Iterator[str]:
    """Imports that go against the order of the layers."""
    own = layer(module)
    if not own:
        return  # the package's own __init__ re-exports
    for name in sorted(names):
        if name.split(".")[0] != "paimon_spark":
            continue
        other = layer(name)
        if not other:
            yield f"{module} imports {name}: the package's __init__ is for users only"
        elif other != own and (HEIGHTS[other] >= HEIGHTS[own] or other not in ONLY_FOR.get(own, HEIGHTS)):
            yield f"{module} imports {name}: `{other}` is not above `{own}`"


def room_offences(module: str, names: set[str]) -> Iterator[str]:
    """Imports that go against the order of the rooms of a layer."""
    own, room, *_ = [*module.split(".")[1:], "", ""]
    heights = ROOM_HEIGHTS.get(own, {})
    if not heights or not room:
        return
    if room not in heights:
        yield f"{module} is in no room of `{own}`"
        return
    for name in sorted(names):
        other = (name.split(".") + [""] * 3)[2]
        if name.startswith(f"paimon_spark.{own}.") and other != room and heights.get(other, 99) >= heights[room]:
            yield f"{module} imports {name}: room `{other}` is not above `{room}`"


def duty_offences(path: str, tree: ast.Module) -> Iterator[str]:
    """Rooms whose `__init__` does not say their duty in one line."""
    _, layer_name, *rest = path.split("/")
    if layer_name in ROOM_HEIGHTS and len(rest) == 2 and rest[1] == "__init__.py":
        duty = ast.get_docstring(tree) or ""
        if not duty or "\n" in duty:
            yield f"{path} must say the duty of the room in one line"


def place_offences(path: str, names: set[str]) -> Iterator[str]:
    """Third-party imports outside the places meant for them."""
    for name in sorted({name.split(".")[0] for name in names}):
        if name in PLACES and not any(path == place or path.startswith(place) for place in PLACES[name]):
            yield f"{path} imports {name}"


def member_offences(path: str, text: str) -> Iterator[str]:
    """Private members of Spark that are used elsewhere than where they are named and probed."""
    named = ("paimon_spark/spark/jvm/", "paimon_spark/spark/session/pyspark_members.py")
    if path.startswith("paimon_spark/spark/") and not path.startswith(named):
        for found in PRIVATE_MEMBERS.findall(text):
            yield f"{path} uses {found}: ask spark/jvm/compat.py or spark/session/pyspark_members.py"


def size_offences(path: str, text: str, tree: ast.Module) -> Iterator[str]:
    """Modules and functions that have grown too long."""
    lines = text.count("\n")
    if lines >= MAX_MODULE_LINES:
        yield f"{path} has {lines} lines"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = [n for n in ast.walk(node) if isinstance(n, ast.stmt)][1:]
            count = len(body) - (ast.get_docstring(node) is not None)
            if count > MAX_FUNCTION_STATEMENTS:
                yield f"{path}: {node.name} has {count} statements"


def offences(root: Path) -> list[str]:
    """Everything that breaks a rule in the two packages under `root`."""
    found: list[str] = []
    for file in sorted([*root.glob("paimon_spark/**/*.py"), *root.glob("pyspark_paimon/**/*.py")]):
        path = file.relative_to(root).as_posix()
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text, path)
        is_package = file.name == "__init__.py"
        module = path.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
        names = imported_names(tree, module, is_package=is_package)
        found += [*layer_offences(module, names), *room_offences(module, names)]
        found += [*duty_offences(path, tree), *place_offences(path, names), *size_offences(path, text, tree)]
        found += member_offences(path, text)
    return found


def import_graph(root: Path) -> dict[str, set[str]]:
    """Module -> modules of the package it imports."""
    files = {}
    for file in root.glob("paimon_spark/**/*.py"):
        path = file.relative_to(root).as_posix()
        files[path.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")] = file
    graph = {}
    for module, file in files.items():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        names = imported_names(tree, module, is_package=file.name == "__init__.py")
        wanted = {name if name in files else name.rpartition(".")[0] for name in names}
        graph[module] = {name for name in wanted if name in files and name != module}
    return graph


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that are left when those without (further) imports are taken away, again and again."""
    rest = dict(graph)
    while True:
        leaves = [module for module, imports in rest.items() if not imports & rest.keys()]
        if not leaves:
            return sorted(rest)
        for module in leaves:
            del rest[module]


def test_layers_places_and_sizes() -> None:
    assert offences(ROOT) == []


def test_no_import_cycles() -> None:
    assert cycle(import_graph(ROOT)) == []


OFFENDERS = {
    "paimon_spark/spec/a.py": ("import paimon_spark.table.table\n", "`table` is not above `spec`"),
    "paimon_spark/read/b.py": ("from ..write import message\n", "`write` is not above `read`"),
    "paimon_spark/merge/c.py": ("from paimon_spark.table import paths\n", "`table` is not above `merge`"),
    "paimon_spark/table/d.py": ("def f():\n    import pyspark\n", "imports pyspark"),
    "paimon_spark/storage/e.py": ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import fsspec\n", "fsspec"),
    "paimon_spark/spark/table/f.py": ("import pandas as pd\n", "imports pandas"),
    "paimon_spark/spark/table/g.py": ("x = 1\n" * 600, "600 lines"),
    "paimon_spark/spark/table/h.py": ("def long():\n" + "    x = 1\n" * 41, "41 statements"),
    "paimon_spark/spark/sql/k.py": ("import paimon_spark.spark.jvm.gateway\n", "room `jvm` is not above `sql`"),
    "paimon_spark/maintain/files/m.py": ("from paimon_spark.maintain.refs import x\n", "`refs` is not above `files`"),
    "paimon_spark/maintain/n.py": ("x = 1\n", "is in no room of `maintain`"),
    "paimon_spark/maintain/refs/__init__.py": ("x = 1\n", "duty of the room"),
    "paimon_spark/spark/sql/o.py": ("x = spark._jsparkSession\n", "uses ._jsparkSession"),
    "paimon_spark/spark/catalog/p.py": ("x = jvm.org.apache.spark.sql.classic.Y\n", "ask spark/jvm/compat.py"),
    "paimon_spark/spark/l.py": ("x = 1\n", "is in no room"),
    "paimon_spark/commit/i.py": ("from paimon_spark import PaimonTable\n", "for users only"),
    "paimon_spark/table/j.py": ("import importlib\nimportlib.import_module('pandas')\n", "imports pandas"),
    "paimon_spark/errors.py": ("from paimon_spark.options import x\n", "`options` is not above `errors`"),
}


@pytest.mark.parametrize("path", OFFENDERS)
def test_the_rules_find_offenders(tmp_path: Path, path: str) -> None:
    text, expected = OFFENDERS[path]
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(text)
    found = offences(tmp_path)
    assert len(found) == 1
    assert expected in found[0]


def test_cycles_are_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["a", "b", "c", "d"]
    assert cycle({"a": {"b"}, "b": set()}) == []


TEST_FOLDERS = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}


def offences_of_tests(path: str, names: set[str]) -> Iterator[str]:
    """Tests that import a test: what tests share stands in `tests/support` (or next to the data it belongs to)."""
    for name in sorted(names):
        module = next((part for part in name.split(".") if part.startswith("test_")), None)
        if module:
            yield f"{path} imports {name}: move what is shared to tests/support"
        elif name.split(".")[0] in TEST_FOLDERS:
            yield f"{path} imports {name}: modules of the tests are imported as tests.{name}"


def test_no_test_imports_a_test() -> None:
    found: list[str] = []
    for file in sorted((ROOT / "tests").rglob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        tree = ast.parse(file.read_text(encoding="utf-8"), path)
        names = imported_names(tree, path.removesuffix(".py").replace("/", "."), is_package=False)
        found += offences_of_tests(path, names)
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "from tests.spark.test_golden import FULL\n",
        "import test_golden\n",
        "from .test_golden import FULL\n",
        "from support.golden import row_multiset\n",
    ],
)
def test_the_rule_finds_tests_that_import_tests(text: str) -> None:
    names = imported_names(ast.parse(text), "tests.spark.test_other", is_package=False)
    assert [*offences_of_tests("tests/spark/test_other.py", names)]


def test_no_file_of_the_checkout_is_imported_under_two_names() -> None:
    """A module that is loaded twice has its state, its classes and its cost twice."""
    names: dict[str, list[str]] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if file.startswith(tuple(f"{ROOT}/{folder}/" for folder in ("tests", "paimon_spark", "pyspark_paimon"))):
            names.setdefault(file, []).append(name)
    assert [found for found in names.values() if len(found) > 1] == []


def test_test_files_have_names_of_their_own() -> None:
    """So that the name of a file is enough to find it."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []


KINDS_ARE_DECIDED_IN = (
    "spec/table_kind.py",
    "spec/schema.py",
    "spec/schema_validation.py",
    "spec/option_validation.py",
)
MOST_KIND_BRANCHES = {"spark": 26, "below spark": 4}  # these numbers may only be lowered


def kind_branches(tree: ast.Module) -> int:
    """How often a module finds out the kind of a table by itself, instead of asking `TableSchema.kind`."""
    count = 0
    tested: list[ast.expr] = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr="bucket_mode" | "data_evolution_enabled" | "cross_partition_update"):
                count += 1
            case ast.BoolOp():
                tested += node.values
            case ast.UnaryOp(op=ast.Not()):
                tested.append(node.operand)
            case ast.If() | ast.IfExp() | ast.While():
                tested.append(node.test)
            case ast.Call(func=ast.Name(id="bool")):
                tested += node.args
            case _:
                pass
    return count + sum(isinstance(node, ast.Attribute) and node.attr == "primary_keys" for node in tested)


def test_the_kind_of_a_table_is_asked_in_one_place() -> None:
    found = dict.fromkeys(MOST_KIND_BRANCHES, 0)
    for file in (ROOT / "paimon_spark").rglob("*.py"):
        path = file.relative_to(ROOT / "paimon_spark").as_posix()
        if path not in KINDS_ARE_DECIDED_IN:
            place = "spark" if path.startswith("spark/") else "below spark"
            found[place] += kind_branches(ast.parse(file.read_text(encoding="utf-8"), path))
    assert all(found[place] <= most for place, most in MOST_KIND_BRANCHES.items()), found


@pytest.mark.parametrize(
    ("text", "branches"),
    [
        ("if schema.primary_keys: pass", 1),
        ("x = not t.schema.primary_keys and y", 1),
        ("x = bool(schema.primary_keys) and schema.bucket_mode is M", 2),
        ("if options.data_evolution_enabled: pass", 1),
        ("x = [schema.field(key) for key in schema.primary_keys if schema.kind.is_keyed]", 0),
    ],
)
def test_branches_on_the_kind_are_found(text: str, branches: int) -> None:
    assert kind_branches(ast.parse(text)) == branches
