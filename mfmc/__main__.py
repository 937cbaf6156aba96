"""`python -m mfmc` is `mfmc`."""

from __future__ import annotations

import sys

from mfmc.cli import main

if __name__ == "__main__":
    sys.exit(main())
