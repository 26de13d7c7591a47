"""The official project's Spark suites, made ready to run: taken from a checkout, compiled, without what cannot be.

A case that asks the official connector's own classes does not compile here. It is cut out and counted as not readable,
and the rest is compiled again, until the compiler agrees.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDERS = ("paimon-spark/paimon-spark-ut/src/test/scala", "paimon-spark/paimon-spark-4.1/src/test/scala")
_OURS = re.compile(r"(Paimon(Spark|Hive)TestBase|PaimonSparkTestWithRestCatalogBase|paimon/Utils|shims/.*)\.scala$")
_ERROR = re.compile(r"^(/[^:]+):(\d+): error: (.*)$")
_TOKEN = re.compile(
    r'"""(?s:.*?)"""(?!")|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|(?s:/\*.*?\*/)|[{}()]|\b(?:test|gridTest|ignore)\('
)
_SECONDS = re.compile(r"(?<=, )\d+\.seconds\b")
"""How long a case waits for its own threads: the runner has a limit of its own."""
_MEMBER = re.compile(r"^ {2}(?! ).*\b(def|val|var|class|object|trait)\b")
_NOT_THERE = re.compile(r"(?:object|value|type|class) (\w+) is not a member of")


def take(git: str, into: Path, wanted: str) -> list[Path]:
    """Copy the sources whose file name matches `wanted`, and what all of them need."""
    names = _git(git, "ls-tree", "-r", "--name-only", "HEAD", *FOLDERS).splitlines()
    taken = []
    for name in names:
        needed = re.search(r"/(WithTableOptions|SparkVersionSupport|PaimonTableTest|FunctionResources)\.scala$", name)
        if not name.endswith(".scala") or _OURS.search(name):
            continue
        if needed or re.search(wanted, name.rpartition("/")[2]):
            path = into / name.replace("/", "+")
            path.write_text(_SECONDS.sub("600.seconds", _git(git, "show", f"HEAD:{name}")))
            taken.append(path)
    return taken


def _git(git: str, *arguments: str) -> str:
    return subprocess.run(["git", f"--git-dir={git}", *arguments], check=True, capture_output=True, text=True).stdout


def compiled(sources: list[Path], classpath: str, classes: Path) -> list[str]:
    """Compile the sources; tell which cases and files were cut out, and why."""
    cut: list[str] = []
    sources = list(sources)
    for _ in range(12):
        files = [HERE / "base.scala", *sources]
        command = ["java", "-Xmx2g", "-Xss8m", "-cp", classpath, "scala.tools.nsc.Main", "-nowarn"]
        command += ["-Xmaxerrs", "100000", "-cp", classpath, "-d", str(classes), *map(str, files)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if not done.returncode:
            return cut
        errors: dict[Path, dict[int, str]] = defaultdict(dict)
        for line in (done.stdout + done.stderr).splitlines():
            if found := _ERROR.match(line):
                errors[Path(found[1])].setdefault(int(found[2]), found[3])
        if not errors or HERE / "base.scala" in errors:
            raise RuntimeError(f"the compiler fails: {(done.stdout + done.stderr)[:3000]}")
        for path, lines in errors.items():
            removed, kept = without(path.read_text(), lines)
            cut += [f"{path.name.rpartition('+')[2]}: {what}" for what in removed]
            if kept is None:
                sources.remove(path)
            else:
                path.write_text(kept)
    raise RuntimeError("the compiler does not come to an end")


def without(text: str, errors: dict[int, str]) -> tuple[list[str], str | None]:
    """Name what holds the lines with errors, and give the text without it: None where that is the whole file."""
    lines = text.split("\n")
    blocks = list(_tests(text))
    removed = []
    for number, said in sorted(errors.items()):
        line = lines[number - 1]
        if not line.strip():
            continue
        inner = [block for block in blocks if block[0] <= number <= block[1]]
        if inner:
            first, last, name = inner[-1]
            removed.append(f"{name} ({said})")
        elif line.startswith("import "):
            name = found[1] if (found := _NOT_THERE.search(said)) else ""
            fewer = re.sub(rf"\b{name}\b( => \w+)?(, )?", "", line).replace(", }", "}") if name and "{" in line else ""
            lines[number - 1] = "" if re.search(r"\{\s*\}", fewer) else fewer
            continue
        else:
            first = number
            while first > 0 and not _MEMBER.match(lines[first - 1]):
                first -= 1
            last = _end(text, first) if first else 0
            if not first or not first <= number <= last:
                return [f"the whole file ({line.strip()[:80]}: {said})"], None
            removed.append(f"member {lines[first - 1].strip()[:60]} ({said})")
        lines[first - 1 : last] = [""] * (last - first + 1)
    return removed, "\n".join(lines)


def _tests(text: str) -> Iterator[tuple[int, int, str]]:
    """First line, last line and name of each case."""
    for found in _TOKEN.finditer(text):
        if found[0] in ("test(", "gridTest(", "ignore("):
            end = _closed(text, found.end() - 1)
            opened = text.find("{", end)
            last = _closed(text, opened) if opened >= 0 else end
            name = " ".join(text[found.end() : end].split())
            yield text.count("\n", 0, found.start()) + 1, text.count("\n", 0, last) + 1, name


def _closed(text: str, start: int) -> int:
    """Where the bracket at `start` is closed."""
    depth = 0
    for found in _TOKEN.finditer(text, start):
        if found[0] in "{(" or found[0].endswith("("):
            depth += 1
        elif found[0] in ("}", ")"):
            depth -= 1
            if not depth:
                return found.start()
    return len(text) - 1


def _end(text: str, first: int) -> int:
    """The last line of the member that begins at line `first`."""
    lines = text.split("\n")
    last = first
    while last < len(lines) and (not lines[last].strip() or lines[last].startswith("   ")):
        last += 1
    closes = last < len(lines) and lines[last].startswith(("  }", "  )"))
    return last + 1 if closes else last
