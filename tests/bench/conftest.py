"""Makes the modules of the bench, a folder of programs, importable for its tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "bench"))
