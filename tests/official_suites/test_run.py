"""How the answers of the cases are counted."""

from __future__ import annotations

import json
from pathlib import Path

from tests.official_suites.run import report


def test_the_last_answer_of_a_case_counts_and_failures_on_purpose_count_by_reason(tmp_path: Path) -> None:
    answers = [
        ("A", "first", "no end after 60 s"),
        ("A", "first", "passed"),
        ("B", "second", "UnsupportedOperationException: Procedure sys.create_global_index is not supported: …"),
        ("B", "third", "rows differ"),
    ]
    lines = [json.dumps({"suite": suite, "case": case, "seconds": 1.0, "said": said}) for suite, case, said in answers]
    (tmp_path / "results.jsonl").write_text("\n".join(lines))
    said = report(tmp_path / "results.jsonl").splitlines()
    assert sorted(said[:3]) == ["    1 failed", "    1 global indexes are not built", "    1 passed"]
    assert said[3:] == ["    3 cases", "  1.0 s B: third: 'rows differ'"]
