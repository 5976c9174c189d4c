"""Lets the contract tests import each other by package name."""

from __future__ import annotations

import sys
from pathlib import Path

_TESTS = str(Path(__file__).parents[1])
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)
