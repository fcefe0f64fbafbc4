"""Defines the world: one pipeline over a remembered log and a real ledger.

Its acts run in this process, or in one that dies.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import connect
from lockstep.adapters.processes import this_owner
from lockstep.core.pipeline.definition import Append, AtLeastOnce, AtMostOnce, Feed
from lockstep.core.planning.decisions import Caller
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.context import Context
from lockstep.targets.table import parts
from simulation.acts import ME, Acts
from simulation.asker import Asker
from simulation.child import Child, Outcome
from simulation.engine import RememberedEngine
from simulation.faults import FAULTS
from simulation.log import Log, SayingLog, Spliced
from simulation.pipeline import KEYS_ANYWHERE, folder_of
from simulation.proof import looked_at
from simulation.worker import Worker, owner_that_is_gone
from support.oracles.folded import not_folded

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from lockstep.core.pipeline.guarantees import Guarantee

__all__ = ["ME", "Followed", "World"]


class World(Acts):
    """The pipeline with its log and its ledger. `parts` remembers the content that each stream was opened on."""

    feed: Feed | None = None
    folder_of = staticmethod(folder_of)

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
        self.folder = self.folder_of(home, kind=kind, records=records, guarantee=guarantee, feed=self.feed)
        self.pipeline = self.folder.pipeline
        self.key = None if isinstance(self.pipeline.first, Append) else "id"
        self.dsn, self.home = dsn, home
        self.log = Log(
            "house.v1",
            partitions=3,
            anywhere=self.kind in KEYS_ANYWHERE,
            timed=kind == "windowed",
            steps_back=kind == "versions",
        )
        self.parts: dict[int, Any] = {}
        self.factor, self.seed = 1, 0
        self.refuses: Callable[[dict], bool] | None = None  # records that the code of the day rejects
        self.restart = restart  # how the server is stopped at once and started again, where that may be done
        self.figures: Counter[str] = Counter()  # rows compared, lost, doubled and wrong, over all looks
        self._asker = Asker(dsn)
        self._worker: Worker | None = None
        if anew:
            self._empty()
        with closing(connect(dsn)) as conn:
            migrate_target(conn, self.folder)

    # How a process dies.

    def dying(self, act: str, *arguments: Any, fault: str | None = None, **named: Any) -> Outcome:
        """Runs the act in a separate process, which may be killed at a fault point.

        Returns its outcome, if there is one.
        """
        process = self.start(act, *arguments, fault=fault, **named)
        return process.wait()

    def start(self, act: str, *arguments: Any, fault: str | None = None, **named: Any) -> Child:
        """Starts the act in a separate process."""
        self.seed += 1
        return Child.fork(self.home / f"armed-{self.seed}", fault, lambda: self._alone(act, *arguments, **named))

    def stay(self) -> None:
        """Keeps the sessions of this process from act to act, as a worker does that lives on. `close` closes them."""
        self._worker = Worker(Context(self.dsn, SayingLog(self.log)), self._engine())

    def living_on(self, act: str, *arguments: Any, **named: Any) -> Outcome:
        """Runs the act in this process, without a fault, and returns its outcome."""
        self.seed += 1
        return Outcome.of(lambda: getattr(self, act)(*arguments, **named))

    def interrupted(self, act: str, *arguments: Any, after: float) -> Outcome:
        """Runs the act, and restarts the server that many seconds after it began."""
        process = self.start(act, *arguments)
        time.sleep(after)
        self.close()
        self.restart()
        return process.wait()

    # The known facts.

    def ask(self, query: str, *values: Any) -> list[tuple]:
        """Runs one statement as the owner of the ledger's schema."""
        return self._asker.ask(query, *values)

    def positions(self) -> dict[int, int]:
        return dict(self.ask("select partition, position from lockstep.stream where retired_at is null order by 1"))

    def leases_run_out(self) -> None:
        """Ends every lease, as after some time. No process then counts as alive."""
        self.ask("update lockstep.batch set lease_until = clock_timestamp() where state = 'planned'")
        self.ask("update lockstep.attempt set lease_until = clock_timestamp() where closed_at is null")

    def remember(self) -> None:
        """Lets new streams read the current content. Call it after every act, before the log changes."""
        for stream_id, partition in self.ask("select stream_id, partition from lockstep.stream"):
            self.parts.setdefault(stream_id, self.log.parts[partition] if partition < len(self.log.parts) else None)

    @property
    def tables(self) -> list[str]:
        """Returns the tables of its targets."""
        return [target.table for target in self.pipeline.targets]

    @property
    def may(self) -> tuple[str, ...]:
        """Returns what the guarantee does not promise."""
        match self.pipeline.guarantee:
            case AtLeastOnce():
                return ("double",)
            case AtMostOnce():
                return ("lose",)
        return ()

    @property
    def each_record_stands_once(self) -> bool:
        """Returns True if no record may stand in two rows.

        After a truncation one may, while `retire` begins at log start.
        """
        return "truncation" in FAULTS or not self.log.truncations

    def forget(self) -> None:
        """Adapts `parts` to a ledger that went back in time.

        Streams that it does not know are opened anew, on the current content. The ledger reads on if the log was cut
        past its current position. It also reads on, behind a loss, if the log was cut below the position and retention
        has deleted every record that shows it (docs/traps.md, K31).
        """
        known = {}
        for stream, partition, position in self.ask("select stream_id, partition, position from lockstep.stream"):
            part = self.parts[stream]
            today = self.log.parts[partition] if partition < len(self.log.parts) else None
            known[stream] = part
            if today and part and today.holds(part, position):
                known[stream] = today
            elif today and part and today.before is not None and today.log_start >= position:
                known[stream] = Spliced(part, today, position)
        self.parts = known

    def violations(self, *, rest: bool = False, least: int = 0) -> list[str]:
        """Returns the independent checker's violations, with the remembered log in Kafka's place.

        Adds the checker's figures to `figures`.
        """
        self.remember()
        violations = []
        for table in self.tables:
            found = looked_at(self, table, rest=rest, least=least)
            self.figures.update(found.figures)
            violations += found.violations
        feeds = [target.table for target in self.pipeline.targets if target.feed is not None]
        return violations + [what for table in feeds for what in not_folded(self.ask, table)]

    def drained(self) -> list[str]:
        """Runs the live lane to the log's end, with all faults over. Returns the partitions that are not there."""
        self.leases_run_out()
        self.run(take_over=True)
        return self.behind()

    def least_rows(self, commits: int) -> int:
        """Returns how many rows a look after so many commits must compare.

        A keyed target has few, however long it runs.
        """
        return commits // 2 if self.kind in {"appended", "by_batch", "parts", "once", "two"} else min(5, commits)

    def behind(self) -> list[str]:
        """Returns the partitions whose position is not at the log's end."""
        ends = {p: part.stable_end for p, part in enumerate(self.log.parts)}
        return [
            f"partition {p}: {at}, the log ends at {ends[p]}" for p, at in self.positions().items() if at != ends[p]
        ]

    def close(self) -> None:
        """Closes the parent's own connections. The next question, or act, opens others."""
        self._asker.close()
        if self._worker:
            self._worker.close()

    def _empty(self) -> None:
        """Empties the database, as it was before any world."""
        for (name,) in self.ask("select name from lockstep.feed"):
            readers = f"lockstep_feed.{name}_from(bigint, int), lockstep_feed.{name}_from(bigint, int, uuid)"
            self.ask(f"drop table lockstep_feed.{name}; drop routine {readers}")
        tables = self.ask("select tablename from pg_tables where schemaname = 'lockstep' and tablename <> 'migration'")
        self.ask(f"truncate {', '.join(f'lockstep.{name}' for (name,) in tables)} restart identity")
        kinds = dict(self.ask("select relname, relkind from pg_class where relname = 'house'"))
        self.ask(f"drop {'view' if 'v' in kinds.values() else 'table'} if exists public.house")
        self.ask("drop table if exists public.house_second, public.house_rows")
        staged = self.ask("select tablename from pg_tables where schemaname = 'lockstep_staging'")
        for (name,) in staged:
            self.ask(f"reset role; drop table lockstep_staging.{name}")

    def _alone(self, act: str, *arguments: Any, **named: Any) -> dict:
        self._asker.forked()
        return getattr(self, act)(*arguments, **named)

    def visible(self, stream_id: int, covered: list[tuple[int, int]]) -> dict[int, tuple]:
        """Returns the current or former records of a stream's covered offsets."""
        part = self.parts[stream_id]
        return {o: (r.key, r.value) for low, high in covered for o, r in part.visible(low, high).items()}

    def moment(self, stream_id: int, offset: int) -> datetime:
        """Returns the time of a current or former record."""
        return self.parts[stream_id].visible(offset, offset + 1)[offset].at

    @contextmanager
    def _at(self):
        least = parts.LEAST_OFFSETS
        parts.LEAST_OFFSETS = 0 if self.kind == "parts" else least
        try:
            with self._here() as at:
                yield at
        finally:
            parts.LEAST_OFFSETS = least

    @contextmanager
    def _here(self):
        if self._worker and self._worker.is_here:
            yield self._worker.at
            return
        at = Context(self.dsn, SayingLog(self.log))
        try:
            yield at
        finally:
            at.close()

    def _engine(self) -> RememberedEngine:
        here = self._worker and self._worker.is_here
        engine = self._worker.engine if here else RememberedEngine(self.folder, self.log, self.dsn)
        engine.refuses = self.refuses
        return engine.renew(self.factor, self.seed)

    def _caller(self, **how: Any) -> Caller:
        # A worker's next act comes from another owner, as if its process had ended: no lease of the last one counts.
        owner = owner_that_is_gone() if self._worker and self._worker.is_here else this_owner()
        return Caller(str(how.pop("owner", owner)), **how)


class Followed(World):
    """A world whose targets have feeds."""

    feed = Feed()
