"""One pipeline over a remembered log and a real ledger: what may be done to it, in this process or in one that dies."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from house.asker import Asker
from house.child import Child, Outcome
from house.engine import RememberedEngine
from house.log import Log, SayingLog
from house.pipeline import KEYS_ANYWHERE, folder_of
from house.proof import violations
from lockstep.adapters.postgres import connect
from lockstep.adapters.processes import this_owner
from lockstep.core.bounds import AtBatch, AtOffsets
from lockstep.core.decisions import Blocked, Caller
from lockstep.core.definition import Append
from lockstep.core.offsets import OffsetRange, TopicPartition
from lockstep.core.person import Person
from lockstep.ledger.migrate import migrate_target
from lockstep.steps import decisions, requests
from lockstep.steps.preview import preview
from lockstep.steps.reap import reap
from lockstep.steps.retire import retire
from lockstep.steps.run import run, until_idle
from lockstep.steps.skip import skip
from lockstep.steps.surroundings import Surroundings
from lockstep.steps.upkeep import upkeep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lockstep.core.guarantees import Guarantee

ME = Person("me", "a test")


class World:
    """Everything there is; `parts` remembers which content each stream was opened on."""

    def __init__(
        self,
        dsn: str,
        home: Path,
        *,
        kind: str = "appended",
        records: int = 40,
        anew: bool = False,
        restart: Callable[[], None] | None = None,
        guarantee: Guarantee | None = None,
    ) -> None:
        self.kind = kind
        self.folder = folder_of(home, kind=kind, records=records, guarantee=guarantee)
        self.pipeline = self.folder.pipeline
        self.key = None if isinstance(self.pipeline.first, Append) else "id"
        self.dsn, self.home = dsn, home
        self.log = Log("house.v1", partitions=3, anywhere=self.kind in KEYS_ANYWHERE)
        self.parts: dict[int, object] = {}
        self.factor, self.seed = 1, 0
        self.restart = restart  # how the server is stopped at once and started again, where that may be done
        self._asker = Asker(dsn)
        if anew:
            self._empty()
        with closing(connect(dsn)) as conn:
            migrate_target(conn, self.folder)

    # What users do; each answers with a small document.

    def run(self, **caller: object) -> dict:
        with self._at() as at:
            return _told(list(until_idle(at, self._engine(), self.folder, self._caller(**caller), wait=0)))

    def once(self, **caller: object) -> dict:
        with self._at() as at:
            return _told([run(at, self._engine(), self.folder, self._caller(**caller))])

    def redo(
        self, lane: str, begin: dict[int, int] | int | None, end: dict[int, int] | int | None, **caller: object
    ) -> dict:
        with self._at() as at:
            wanted = requests.Wanted(lane, _bound(begin), _bound(end))
            asked = requests.ask(at.conn, at.broker, self.folder, wanted, ME, datetime.now(UTC))
            if asked.request_id is None:
                return {"decision": "Idle", "committed": []}
            who = self._caller(**caller)
            return _told(list(until_idle(at, self._engine(), self.folder, who, wait=0, request_id=asked.request_id)))

    def end_requests(self) -> dict:
        """Fills and replays that were left somewhere are gone on with."""
        left = self.ask("select request_id from lockstep.request where closed_at is null and not preview order by 1")
        with self._at() as at:
            for (request_id,) in left:
                who = self._caller(take_over=True)
                list(until_idle(at, self._engine(), self.folder, who, wait=0, request_id=request_id))
        return {"ended": len(left)}

    def preview(self, begin: dict[int, int] | None) -> dict:
        with self._at() as at:
            wanted = requests.Wanted("replay", _bound(begin), None, preview=True)
            asked = requests.ask(at.conn, at.broker, self.folder, wanted, ME, datetime.now(UTC))
            if asked.request_id is None:
                return {"decision": "Idle"}
            found, decision = preview(at, self._engine(), self.folder, asked.request_id, self._caller())
            return {"decision": type(decision).__name__, **found.counts}

    def skip(self, to: dict[int, int] | None) -> dict:
        with self._at() as at:
            done = skip(at.conn, at.broker, self.pipeline, _bound(to), ME, datetime.now(UTC))
            return {"skipped": len(done.ranges)}

    def accept_losses(self) -> dict:
        """Every stretch that was deleted before it was committed."""
        accepted = 0
        with self._at() as at:
            for partition, position in self.positions().items():
                log_start = self.log.parts[partition].log_start if partition < len(self.log.parts) else 0
                if position < log_start:
                    lost = OffsetRange(TopicPartition(self.log.topic, partition), position, log_start)
                    decisions.accept_loss(at.conn, at.broker, self.pipeline, lost, ME)
                    accepted += 1
        return {"accepted": accepted}

    def retire(self, partition: int | None = None, start: str | int = "truncation") -> dict:
        with self._at() as at:
            done = retire(at.conn, at.broker, self.pipeline, partition, ME, start)
            return {"retired": len(done.retired)}

    def abandon(self) -> dict:
        batches = [b for (b,) in self.ask("select batch_id from lockstep.batch where state = 'planned' order by 1")]
        with self._at() as at:
            for batch in batches:
                decisions.abandon(at.conn, batch, ME)
        return {"abandoned": batches}

    def reap(self) -> dict:
        with self._at() as at:
            return {
                "dropped": len(reap(at.conn).dropped),
                "merged": upkeep(at.conn, at.broker.view, least=2, most=5).merged,
            }

    # How a process dies.

    def dying(self, act: str, *arguments: object, fault: str | None = None, **named: object) -> Outcome:
        """The act in a process of its own, which may be killed at a fault point; what it was told, if anything."""
        process = self.start(act, *arguments, fault=fault, **named)
        return process.wait()

    def start(self, act: str, *arguments: object, fault: str | None = None, **named: object) -> Child:
        """The act begins in a process of its own."""
        self.seed += 1
        return Child.fork(self.home / f"armed-{self.seed}", fault, lambda: self._alone(act, *arguments, **named))

    def interrupted(self, act: str, *arguments: object, after: float) -> Outcome:
        """The act, with the server restarted that many seconds after it began."""
        process = self.start(act, *arguments)
        time.sleep(after)
        self.close()
        self.restart()
        return process.wait()

    # What is known.

    def ask(self, query: str, *values: object) -> list[tuple]:
        """One statement as the owner of the ledger's schema."""
        return self._asker.ask(query, *values)

    def positions(self) -> dict[int, int]:
        return dict(self.ask("select partition, position from lockstep.stream where retired_at is null order by 1"))

    def leases_run_out(self) -> None:
        """Time passes: nobody is taken to be alive any more."""
        self.ask("update lockstep.batch set lease_until = clock_timestamp() where state = 'planned'")
        self.ask("update lockstep.attempt set lease_until = clock_timestamp() where closed_at is null")

    def remember(self) -> None:
        """New streams read the content that is there now; asked after every act, before the log changes."""
        for stream_id, partition in self.ask("select stream_id, partition from lockstep.stream"):
            self.parts.setdefault(stream_id, self.log.parts[partition] if partition < len(self.log.parts) else None)

    def violations(self, *, rest: bool = False) -> list[str]:
        """What the independent checker says, with the remembered log in Kafka's place."""
        self.remember()
        return violations(self, rest=rest)

    def drained(self) -> list[str]:
        """With all faults over, the positions come to the log's end (live)."""
        self.leases_run_out()
        self.run(take_over=True)
        ends = {p: part.stable_end for p, part in enumerate(self.log.parts)}
        return [
            f"partition {p}: {at}, the log ends at {ends[p]}" for p, at in self.positions().items() if at != ends[p]
        ]

    def close(self) -> None:
        """The parent's own connection ends; the next question opens another."""
        self._asker.close()

    def _empty(self) -> None:
        """The database as it was before any world."""
        tables = self.ask("select tablename from pg_tables where schemaname = 'lockstep' and tablename <> 'migration'")
        self.ask(f"truncate {', '.join(f'lockstep.{name}' for (name,) in tables)} restart identity")
        self.ask("drop table if exists public.house")
        staged = self.ask("select tablename from pg_tables where schemaname = 'lockstep_staging'")
        for (name,) in staged:
            self.ask(f"reset role; drop table lockstep_staging.{name}")

    def _alone(self, act: str, *arguments: object, **named: object) -> dict:
        self._asker.forked()
        return getattr(self, act)(*arguments, **named)

    def visible(self, stream_id: int, covered: list[tuple[int, int]]) -> dict[int, tuple]:
        """What the log holds, or held, of a stream's covered offsets."""
        part = self.parts[stream_id]
        return {o: (r.key, r.value) for low, high in covered for o, r in part.visible(low, high).items()}

    @contextmanager
    def _at(self):
        at = Surroundings(self.dsn, SayingLog(self.log))
        try:
            yield at
        finally:
            at.close()

    def _engine(self) -> RememberedEngine:
        return RememberedEngine(self.folder, self.log, self.dsn, self.factor, self.seed)

    def _caller(self, **how: object) -> Caller:
        return Caller(str(how.pop("owner", this_owner())), **how)


def _told(reports) -> dict:
    last = reports[-1]
    worked = [r.batch_id for r in reports if r.went_on and not r.superseded]
    reason = last.decision.reason if isinstance(last.decision, Blocked) else None
    return {
        "decision": type(last.decision).__name__,
        "committed": worked,
        "superseded": last.superseded,
        "reason": reason,
    }


def _bound(what: dict[int, int] | int | None):
    if what is None:
        return None
    return AtBatch(what) if isinstance(what, int) else AtOffsets(what)
