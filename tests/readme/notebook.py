"""Run the cells of a notebook in this process as Jupyter would: `python tests/readme/notebook.py` stores their outputs.

No nbclient: it brings a kernel with some thirty packages, for cells that need no more than `exec` and what objects say
of themselves (`_repr_html_`, `_repr_svg_`). So a cell is plain Python, without magics.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = tuple(sorted((ROOT / "examples").glob("*.ipynb")))
MEDIA = {"text/html": "_repr_html_", "image/svg+xml": "_repr_svg_"}
WAREHOUSE = "/data/wh"
OWNER = re.compile(r"(>owner</th><td[^>]*>)[^<]*")


def read_notebook(path: Path) -> dict[str, Any]:
    """The notebook as it is stored."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def run_cells(path: Path, names: dict[str, object]) -> list[list[dict[str, Any]]]:
    """The outputs of each code cell, in their order; `names` are the notebook's variables.

    The directory in the variable `warehouse` is shown as `/data/wh`, whoever owns a table as `you`.
    """
    outputs = []
    codes = [cell for cell in read_notebook(path)["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(codes, 1):
        printed = io.StringIO()
        with redirect_stdout(printed):
            value = run_cell("".join(cell["source"]), f"{path.name}, cell {cell['id']}", names)
        made: list[dict[str, Any]] = []
        if printed.getvalue():
            made.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
        if value is not None:
            made.append(
                {"data": shown(value), "execution_count": number, "metadata": {}, "output_type": "execute_result"}
            )
        text = json.dumps(made, ensure_ascii=False).replace(str(names.get("warehouse", WAREHOUSE)), WAREHOUSE)
        outputs.append(json.loads(OWNER.sub(r"\1you", text)))
    return outputs


def run_cell(code: str, name: str, names: dict[str, object]) -> object:
    """Run one cell; the value of its last statement where that is an expression."""
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    return eval(compile(ast.Expression(last.value), name, "eval"), names) if isinstance(last, ast.Expr) else None


def shown(value: object) -> dict[str, list[str]]:
    """A value by its media types."""
    found = {kind: getattr(value, method)() for kind, method in MEDIA.items() if hasattr(type(value), method)}
    found["text/plain"] = re.sub(r" at 0x\w+", "", repr(value))  # after the others: Spark then does not run twice
    return {kind: lines(text) for kind, text in found.items() if text is not None}


def lines(text: str) -> list[str]:
    """Text as notebooks store it."""
    return text.splitlines(keepends=True)


def comparable(outputs: list[list[dict[str, Any]]]) -> list[str]:
    """The outputs of each cell without what differs between runs: times, and sizes of files with their units."""
    texts = [json.dumps(made, ensure_ascii=False, sort_keys=True) for made in outputs]
    texts = [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text) for text in texts]
    texts = [re.sub(r"\d+(\.\d+)? (B|KB|MB)\b", "SIZE", text) for text in texts]
    return [re.sub(r'(data-bytes|fill-opacity)=\\"[\d.]+\\"', r"\1", text) for text in texts]


def stored_outputs(path: Path) -> list[list[dict[str, Any]]]:
    """The outputs that the notebook shows to who only looks at it."""
    return [cell["outputs"] for cell in read_notebook(path)["cells"] if cell["cell_type"] == "code"]


def keep_outputs(path: Path, outputs: list[list[dict[str, Any]]]) -> None:
    """Store the outputs in the notebook."""
    notebook = read_notebook(path)
    codes = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, made) in enumerate(zip(codes, outputs, strict=True), 1):
        cell.update(outputs=made, execution_count=number)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    for notebook_path in NOTEBOOKS:
        keep_outputs(notebook_path, run_cells(notebook_path, {}))
