"""Write the list of procedures into docs/statements.md: `python tests/readme/procedure_table.py`."""

import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/statements.md"
BEGIN = "<!-- procedures: made by tests/readme/procedure_table.py -->\n"
END = "<!-- end of procedures -->\n"


def table() -> str:
    """All procedures that a user can call."""
    from paimon_spark.spark.sql.procedures.registry import REFUSED, procedure_names, procedures

    reasons = "".join(wrapped(f"- `{name}`: {reason}.") for name, reason in sorted(REFUSED.items()))
    known = procedures()
    rows = [f"| `{known[name].signature}` | {known[name].description} |" for name in procedure_names()]
    head = "| procedure | what it does |\n|---|---|\n"
    return head + "\n".join(rows) + f"\n\nRefused, with these words:\n\n{reasons}"


def wrapped(item: str) -> str:
    """An item of a list in lines of 120 characters."""
    lines = textwrap.wrap(item, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def with_procedures(page: str) -> str:
    """The page with the list as it should be."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    PAGE.write_text(with_procedures(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
