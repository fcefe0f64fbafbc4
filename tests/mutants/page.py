"""Writes docs/mutants.md from the mutants themselves.

Usage: python tests/mutants/page.py > docs/mutants.md, with `include` and `tests` on PYTHONPATH.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from mutants.catalogue import MUTANTS
from mutants.mutant import ALONE
from simulation.test_guards_alone import DANGERS

if TYPE_CHECKING:
    from mutants.mutant import Mutant

GUARDS = {danger.happens.__name__: tuple(danger.guards) for danger in DANGERS}
HEAD = """# Mutants

Each line is Lockstep with one guard less, and the tests that notice. `tests/mutants` plants it in a copy of the
tree (for a constraint, in a database of its own), runs those tests and the ones beside them, and wants exactly the
named ones red, each by an assertion. A mutant whose text is no longer there exactly once is an error, and so is one
that only breaks the code. The tree as it is passes the same tests, run the same way. A changed database gets a
catalog of its own, so no test is red because the ledger's text was compared.

Guards hide one another, so most are tried *alone*: `tests/simulation/test_guards_alone.py` has a danger, the guards
against it, and takes all but one out of play; with none, the danger is shown to be real. The others of the same
danger are the masked ones.

`make test` runs a sample of them, marked *fast*, and `make test-all` all. A new guard comes with its mutant: add it
to a list in `tests/mutants/of_*.py`, then `PYTHONPATH=include:tests python tests/mutants/page.py >
docs/mutants.md`.

| mutant | changes | because | red | run |
| --- | --- | --- | --- | --- |
"""


def red(mutant: Mutant) -> str:
    """Returns the danger, the guard that is alone and those that are masked, or else the test's own name."""
    said = []
    for test in mutant.red:
        name = test.rpartition("::")[2]
        if test.startswith(ALONE):
            danger, _, guard = name.partition("[")[2].rstrip("]").partition("-")
            masked = ", ".join(f"`{other}`" for other in GUARDS[danger] if other != guard)
            said.append(f"{danger.replace('_', ' ')}: `{guard}` alone" + (f", without {masked}" if masked else ""))
        else:
            name, _, case = name.rstrip("]").partition("[")
            said.append(name.removeprefix("test_").replace("_", " ") + (f" ({case})" if case else ""))
    return "; ".join(said)


def page() -> str:
    """Returns the whole page."""
    lines = [
        f"| {m.name} | {', '.join(dict.fromkeys(str(change) for change in m.changes))} | {m.why} | {red(m)} "
        f"| {'long' if m.long else 'fast'} |"
        for m in MUTANTS
    ]
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
