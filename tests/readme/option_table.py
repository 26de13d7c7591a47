"""Write the tables of options into their page: `python tests/readme/option_table.py`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/options.md"
BEGIN = "<!-- {} options: made by tests/readme/option_table.py -->\n"
END = "<!-- end of {} options -->\n"
SCOPES = {"read": "Reads", "write": "Writes", "table": "Tables", "store": "Storage", "catalog": "Catalogs"}


def shown(value: object) -> str:
    """A default as a user would write it."""
    from datetime import timedelta

    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, timedelta):
        return f"`{int(value.total_seconds() * 1000)} ms`"
    return f"`{value}`"


def default_of(option: object) -> str:
    """The default, memory sizes in their unit."""
    from paimon_spark.options import Option, OptionKind

    assert isinstance(option, Option)
    if option.type is OptionKind.MEMORY and isinstance(option.default, int):
        return f"`{option.default >> 20} mb`" if option.default >> 20 else f"`{option.default >> 10} kb`"
    return shown(option.default)


def cell(text: str) -> str:
    """A text as a cell of a table."""
    return text.replace("|", chr(92) + "|").replace("<", "&lt;")


def honoured() -> str:
    """All options that are acted on, by who looks at them."""
    from paimon_spark.options import OPTIONS, PATTERNS

    parts = []
    for scope, title in SCOPES.items():
        rows = [
            f"| `{option.key}` | {default_of(option)} | {cell(option.description)} |"
            for option in (*OPTIONS.values(), *PATTERNS)
            if option.honoured and option.scope.value == scope
        ]
        parts.append(f"**{title}**\n\n| option | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def refused() -> str:
    """What is refused, with the values and the advice."""
    from paimon_spark.options import OPTIONS, PATTERNS, Stage

    rows = []
    for option in (*OPTIONS.values(), *PATTERNS):
        for refusal in option.refusals:
            named = ", ".join(f"`{value}`" for value in refusal.only or refusal.unless)
            values = named if refusal.only else f"all but {named}" if named else "all"
            values = "all but the default" if refusal.stage is Stage.CATALOG else values
            rows.append(f"| `{option.key}` | {values} | {refusal.stage.value} | {cell(refusal.advice)} |")
    return "| option | values | refused is | instead |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


def ignored() -> str:
    """What is ignored, and what happens instead."""
    from paimon_spark.options import OPTIONS, PATTERNS

    options = [option for option in (*OPTIONS.values(), *PATTERNS) if option.instead is not None]
    rows = [f"| `{option.key}` | {cell(str(option.instead))} |" for option in options]
    return "| option | what happens |\n|---|---|\n" + "\n".join(rows) + "\n"


def with_table(page: str) -> str:
    """The page with its tables as they should be."""
    for name, table in (("honoured", honoured), ("refused", refused), ("ignored", ignored)):
        begin, end = BEGIN.format(name), END.format(name)
        before, rest = page.split(begin)
        page = before + begin + "\n" + table() + "\n" + end + rest.split(end)[1]
    return page


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
