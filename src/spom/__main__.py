"""`python -m spom` is the command `spom`."""

from __future__ import annotations

import sys

from spom.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
