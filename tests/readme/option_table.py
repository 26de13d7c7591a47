"""Write the table of options into the README: `python tests/readme/option_table.py`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BEGIN = "<!-- options: made by tests/readme/option_table.py -->\n"
END = "<!-- end of options -->\n"
SCOPES = {"read": "Reads", "write": "Writes", "table": "Tables", "store": "Storage"}


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


def table() -> str:
    """All options that we act on, by who looks at them."""
    from paimon_spark.options import OPTIONS, PATTERNS

    parts = []
    for scope, title in SCOPES.items():
        rows = [
            f"| `{option.key}` | {default_of(option)} | {option.description.replace('|', chr(92) + '|')} |"
            for option in (*OPTIONS.values(), *PATTERNS)
            if option.honoured and option.scope.value == scope
        ]
        parts.append(f"**{title}**\n\n| option | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def with_table(readme: str) -> str:
    """The README with the table as it should be."""
    before, rest = readme.split(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    path = ROOT / "README.md"
    path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
