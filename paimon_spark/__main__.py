"""``python -m paimon_spark``: the command line."""

import sys

from paimon_spark.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
