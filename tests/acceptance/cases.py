"""The files of cases, and what does not hold yet."""

from __future__ import annotations

from pathlib import Path

CASES = Path(__file__).resolve().parent

GROUPS = (
    *("pu", "sq", "tt", "tg", "rb", "br", "ex", "wr", "se", "sc", "sn", "agp", "sy", "inc", "an", "cp", "ro"),
    *("ag", "fr", "dv", "bu", "st", "mg"),
)

FILES = sorted(path for group in GROUPS for path in CASES.glob(f"{group}_*.slt"))

NOT_YET: dict[str, tuple[str, str]] = {}
"""Case -> why it does not hold yet, and what its failure must say."""
