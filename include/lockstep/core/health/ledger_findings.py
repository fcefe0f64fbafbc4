"""Checks that the ledger is as `lockstep migrate` makes it: migrations, roles, memberships, grants, and tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.core.errors import MIGRATE
from lockstep.core.health.findings import NOT_THERE, Check, Finding, Judged, problem, warning
from lockstep.core.ledger_rights import EXPECTED_ROLES, OF_A_RUN, Grant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LEDGER_SUBJECT = "ledger"
MANY_PARTITIONS = 1_000


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    """The ledger as it stands: migrations, roles, and what deviates.

    `applied` has each migration's checksum by version. It is None if the login may not look.
    """

    login: str
    applied: Mapping[int, str] | None
    roles: Mapping[str, bool]  # existing roles. True if the login may `set role` to it.
    lacking: Sequence[Grant]
    rewriting: Sequence[Grant]  # grants that let a role change history
    excess: Sequence[str] = ()  # rights of the login beyond a run: `superuser`, `createrole`, ..., the owner's role

    @property
    def named(self) -> frozenset[str]:
        """Returns the grants that have findings of their own, in the catalog's names."""
        told = (*self.lacking, *self.rewriting)
        return frozenset(f"{f'lockstep.{g.table}' if g.table else 'schema lockstep'} to {g.role}" for g in told)

    def lets_read(self, role: str) -> bool:
        """Returns True if the login may take the role on, and the role lacks no grant."""
        return self.roles.get(role, False) and all(grant.role != role for grant in self.lacking)


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """The facts of a pipeline's table: existence, logging, the committer's right to write, and its partitions."""

    table: str
    exists: bool
    logged: bool
    writable: bool
    partitions: int = 0  # parts of batches are among them
    parts: int = 0
    foreign_code: str = ""  # code of an author's that a run would execute
    foreign_remedy: str = ""
    readers: str = ""  # who may read the table behind a view
    is_older_view: bool = False  # a view that compares each row with an array of hidden batches


def ledger_findings(facts: LedgerFacts, known: Mapping[int, str]) -> Judged:
    """Judges what deviates from a ledger that this code has just migrated. `known` are its migrations by version."""
    looked = [roles(facts), membership(facts), privileges(facts), grants(facts), history_rights(facts)]
    return looked if facts.applied is None else [*looked, migrations(facts.applied, known)]


def roles(facts: LedgerFacts) -> Finding | None:
    """Reports roles that are missing. Each step works under its own role."""
    missing = [role for role in EXPECTED_ROLES if role not in facts.roles]
    if not missing:
        return None
    return problem(
        Check.ROLES,
        LEDGER_SUBJECT,
        f"missing: {', '.join(missing)}",
        "each step works under a role of its own, which alone may do what the step does",
        f"{MIGRATE}, as a login that may create roles",
    )


def membership(facts: LedgerFacts) -> Finding | None:
    """Reports roles of a run that the login may not take on. The owner's role is for `migrate` alone."""
    missing = [role for role in OF_A_RUN if facts.roles.get(role) is False]
    if not missing:
        return None
    return problem(
        Check.MEMBERSHIP,
        f"role {facts.login}",
        f"no member of {', '.join(missing)}",
        "a step says `set role` and is refused",
        f'grant {", ".join(missing)} to "{facts.login}"',
    )


def privileges(facts: LedgerFacts) -> Finding | None:
    """Warns about a login with more rights than the five roles of a run. Every transform has those rights, too."""
    if not facts.excess:
        return None
    return warning(
        Check.PRIVILEGES,
        f"role {facts.login}",
        f"more than a run needs: {', '.join(facts.excess)}",
        "whoever has the credentials of a run, as a transform does, could rewrite history with them",
        f"run with a login of its own, and keep this one for `{MIGRATE}`: "
        f"create role lockstep_run login; grant {', '.join(OF_A_RUN)} to lockstep_run",
    )


def grants(facts: LedgerFacts) -> Finding | None:
    """Reports grants that are missing and that a run cannot do without."""
    if not facts.lacking:
        return None
    return problem(
        Check.GRANTS,
        LEDGER_SUBJECT,
        _some(facts.lacking, "missing: "),
        "a step is refused in the middle of its transaction",
        "; ".join(f"grant {g.what} to {g.role}" for g in sorted(facts.lacking)[:3]),
    )


def history_rights(facts: LedgerFacts) -> Finding | None:
    """Reports rights to rewrite history. Recorded rows are proof only as long as nothing can change them."""
    if not facts.rewriting:
        return None
    return problem(
        Check.HISTORY,
        LEDGER_SUBJECT,
        _some(facts.rewriting, ""),
        "history is insert-only by privilege: a row that can be changed proves nothing any more",
        "; ".join(f"revoke {g.what} from {g.role}" for g in sorted(facts.rewriting)[:3]),
    )


def migrations(applied: Mapping[int, str], known: Mapping[int, str]) -> Finding | None:
    """Reports migrations that are altered, missing, or newer than this code."""
    altered = [version for version, checksum in applied.items() if known.get(version, checksum) != checksum]
    newer = [version for version in applied if version > max(known)]
    missing = [version for version in known if version not in applied]
    if altered:
        return problem(
            Check.MIGRATIONS,
            LEDGER_SUBJECT,
            f"{_versions(altered)} applied with other content than this code has",
            "constraints and triggers are perhaps not those that the promises rest on; `lockstep migrate` refuses",
            "run the version of lockstep that applied it; find what was edited in ledger/migrations and put it back",
        )
    if newer:
        return problem(
            Check.MIGRATIONS,
            LEDGER_SUBJECT,
            f"{_versions(newer)} applied, which this code does not have",
            "the ledger is newer than this code, and every other command refuses it",
            "update lockstep",
        )
    if missing:
        return problem(
            Check.MIGRATIONS,
            LEDGER_SUBJECT,
            f"{_versions(missing)} not applied",
            "the ledger is older than this code, and every other command refuses it",
            MIGRATE,
        )
    return None


def chain_findings(pipeline: str, stuck: str) -> Judged:
    """Reports records that wait for a link of the chain, and that no seal links. `stuck` names them, or is empty."""
    if not stuck:
        return [None]
    why = "what no link holds can be rewritten, and no digest would change"
    remedy = f"lockstep verify {pipeline}, and find out who wrote into lockstep.unsealed"
    return [problem(Check.CHAIN, f"pipeline {pipeline}", stuck, why, remedy)]


def target_findings(pipeline: str, facts: TargetFacts) -> Judged:
    """Reports a table that is missing, not writable, emptied by a crash, or has very many partitions."""
    again = f"{MIGRATE} {pipeline}"
    subject = f"table {facts.table}"
    if not facts.exists:
        why = "a commit has nowhere to publish its rows to"
        return [problem(Check.TARGET, subject, NOT_THERE, why, again)]
    if not facts.writable:
        why = "lockstep_committer may not select, insert, update and delete, so a commit is refused"
        return [problem(Check.TARGET, subject, "not granted to lockstep_committer", why, again)]
    if facts.foreign_code:
        why = (
            "a run executes it with the ledger's rights, and neither a superuser nor a member of lockstep_owner made it"
        )
        return [problem(Check.TARGET, subject, facts.foreign_code, why, facts.foreign_remedy)]
    return [_unlogged(facts, subject) or _readers(facts) or _older_view(facts, again) or _partitions(facts, subject)]


def _unlogged(facts: TargetFacts, subject: str) -> Finding | None:
    if facts.logged:
        return None
    why = "a crash empties it, and the offsets that it was filled from count as committed"
    return problem(Check.TARGET, subject, "unlogged", why, f"alter table {facts.table} set logged")


def _readers(facts: TargetFacts) -> Finding | None:
    if not facts.readers:
        return None
    rows_table = f"{facts.table}_rows"
    why = f"its rows are there before their commit, and {facts.table} hides them"
    remedy = f"revoke all on {rows_table} from {facts.readers}"
    return problem(Check.TARGET, f"table {rows_table}", f"readable by {facts.readers}", why, remedy)


def _older_view(facts: TargetFacts, again: str) -> Finding | None:
    if not facts.is_older_view:
        return None
    why = "it hides the same rows, but is scanned more slowly, and may let one process add up its rows"
    return warning(Check.TARGET, f"view {facts.table}", "of an older form", why, again)


def _partitions(facts: TargetFacts, subject: str) -> Finding | None:
    if facts.partitions > MANY_PARTITIONS:
        why = "a query that does not name a batch, and Lockstep's own for a record's row, looks into each of them"
        remedy = "larger batches, by the definition's limits or the schedule, and fewer partitions of old ones"
        found = f"{facts.partitions:,} partitions"
        if facts.parts:
            found += f", {facts.parts:,} of them parts of batches"
            remedy = f"lockstep reap, which merges the parts of old batches, and {remedy}"
        return warning(Check.TARGET, subject, found, why, remedy)
    return None


def _some(found: Sequence[Grant], begin: str) -> str:
    shown = ", ".join(map(str, sorted(found)[:3]))
    return f"{begin}{shown}" + (f" and {len(found) - 3} more" if len(found) > 3 else "")  # noqa: PLR2004 - three are shown


def _versions(versions: Sequence[int]) -> str:
    return ", ".join(f"{version:04}" for version in sorted(versions))
