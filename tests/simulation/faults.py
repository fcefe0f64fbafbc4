"""Names the faults of the house that LOCKSTEP_HOUSE_FAULTS may switch on (words, `all` or `none`).

truncation: the log ends earlier and grows again, and a person retires it. Each record then stands in one row. regrowth:
the log grows past the position again before any plan has seen it shorter. deployment: the folder changes between two
tasks of a run. timeline: an older copy of the ledger's database takes its place while an attempt is under way.
"""

from __future__ import annotations

import os

NAMES = ("truncation", "regrowth", "deployment", "timeline")
BY_DEFAULT = "all"
_WANTED = os.environ.get("LOCKSTEP_HOUSE_FAULTS", BY_DEFAULT).split()
FAULTS = frozenset(NAMES if "all" in _WANTED else _WANTED) - {"none"}
if unknown := FAULTS - set(NAMES):
    raise SystemExit(f"LOCKSTEP_HOUSE_FAULTS names {sorted(unknown)}; known are: {', '.join(NAMES)}, all, none")
