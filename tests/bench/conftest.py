"""The benchmarks are run from the checkout and never installed: they must be found from here."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)
