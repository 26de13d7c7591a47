"""Runs acceptance cases on Spark Connect, one for each line of its input: `… sc://…`.

A line of JSON answers each: how many steps passed, and the failure, null where the case holds.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.acceptance.run import Session, run_file

if __name__ == "__main__":
    session = Session("ours", remote=sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(run_file(session, line.strip())), flush=True)
    session.close()
