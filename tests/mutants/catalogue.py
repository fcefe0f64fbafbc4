"""Every mutant there is."""

from __future__ import annotations

from mutants.of_the_edges import MUTANTS as EDGES
from mutants.of_the_ledger import MUTANTS as LEDGER
from mutants.of_the_rest import MUTANTS as REST
from mutants.of_the_steps import MUTANTS as STEPS

MUTANTS = [*LEDGER, *STEPS, *REST, *EDGES]
