"""The bench is a folder of programs: its modules are found when its tests run."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "bench"))
