"""Defines the acts of the house's users. Each opens its own connections and answers with a small document."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lockstep.core.changes.person import Person
from lockstep.core.offsets import OffsetRange, TopicPartition
from lockstep.core.planning.bounds import AtBatch, AtOffsets
from lockstep.core.planning.decisions import Blocked
from lockstep.core.states import Lane
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.run import run, until_idle
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from lockstep.steps.changes import decisions
from lockstep.steps.changes.erase import erase
from lockstep.steps.changes.retire import retire
from lockstep.steps.changes.skip import skip
from lockstep.steps.requests import requests
from lockstep.steps.requests.preview import preview
from lockstep.steps.upkeep.coverage import upkeep
from lockstep.steps.upkeep.merge_parts import merge_parts
from lockstep.steps.upkeep.reap import reap
from lockstep.steps.windows.admit import admit_late
from lockstep.steps.windows.emit import emit
from simulation.deployment import folders_around

ME = Person("me", "a test")


class Acts:
    """The acts of users on a world, which gives the surroundings, the engine, the caller and the folder."""

    log: Any
    folder: Any
    pipeline: Any
    positions: Any
    ask: Any
    _at: Any
    _engine: Any
    _caller: Any

    def run(self, **caller: Any) -> dict:
        with self._at() as at:
            return _told(list(until_idle(at, self._engine(), self.folder, self._caller(**caller), wait=0)))

    def once(self, **caller: Any) -> dict:
        with self._at() as at:
            return _told([run(at, self._engine(), self.folder, self._caller(**caller))])

    def deployed(self, task: str, what: str, **caller: Any) -> dict:
        """Runs one live batch, whose folder is another one from this task on."""
        folders = folders_around(self.folder, task, what)
        with self._at() as at:
            who = self._caller(**caller)
            planned = plan(at.conn, at.broker, self.folder, who, datetime.now(UTC))
            decision = type(planned.decision).__name__
            if decision not in {"Start", "Resume"}:
                return {"decision": decision, "committed": []}
            attempt = stage(at, self._engine(), folders["stage"], planned.batch_id, who)
            validate(at, folders["validate"], attempt)
            commit(at, folders["commit"], attempt)
            return {"decision": decision, "committed": [planned.batch_id]}

    def redo(
        self, lane: str, begin: dict[int, int] | int | None, end: dict[int, int] | int | None, **caller: Any
    ) -> dict:
        with self._at() as at:
            wanted = requests.NewRequest(Lane(lane), _bound(begin), _bound(end))
            asked = requests.open_request(at.conn, at.broker, self.folder, wanted, ME, datetime.now(UTC))
            if asked is None:
                return {"decision": "Idle", "committed": []}
            who = self._caller(**caller)
            return _told(list(until_idle(at, self._engine(), self.folder, who, wait=0, request_id=asked.request_id)))

    def end_requests(self) -> dict:
        """Continues fills and replays that were left unfinished."""
        left = self.ask("select request_id from lockstep.request where closed_at is null and not preview order by 1")
        with self._at() as at:
            for (request_id,) in left:
                who = self._caller(take_over=True)
                list(until_idle(at, self._engine(), self.folder, who, wait=0, request_id=request_id))
        return {"ended": len(left)}

    def preview(self, begin: dict[int, int] | None) -> dict:
        with self._at() as at:
            wanted = requests.NewRequest(Lane.REPLAY, _bound(begin), None, preview=True)
            asked = requests.open_request(at.conn, at.broker, self.folder, wanted, ME, datetime.now(UTC))
            if asked is None:
                return {"decision": "Idle"}
            found, decision = preview(at, self._engine(), self.folder, asked.request_id, self._caller())
            return {"decision": type(decision).__name__, **found.counts}

    def skip(self, to: dict[int, int] | None) -> dict:
        with self._at() as at:
            done = skip(at.conn, at.broker, self.pipeline, _bound(to), ME, datetime.now(UTC))
            return {"skipped": len(done.ranges)}

    def accept_losses(self) -> dict:
        """Accepts every stretch that was deleted before it was committed."""
        accepted = 0
        with self._at() as at:
            for partition, position in self.positions().items():
                log_start = self.log.parts[partition].log_start if partition < len(self.log.parts) else 0
                if position < log_start:
                    lost = OffsetRange(TopicPartition(self.log.topic, partition), position, log_start)
                    decisions.accept_loss(at.conn, at.broker, self.pipeline, lost, ME)
                    accepted += 1
        return {"accepted": accepted}

    def accept_loss(self, partition: int, begin: int, end: int) -> dict:
        with self._at() as at:
            lost = OffsetRange(TopicPartition(self.log.topic, partition), begin, end)
            done = decisions.accept_loss(at.conn, at.broker, self.pipeline, lost, ME)
            return {"accepted": done.changed}

    def retire(self, partition: int | None = None, start: str | int = "truncation") -> dict:
        with self._at() as at:
            done = retire(at.conn, at.broker, self.pipeline, partition, ME, start)  # type: ignore[arg-type]
            return {"retired": len(done.retired)}

    def erase(self, key: str) -> dict:
        with self._at() as at:
            done = erase(at.conn, at.broker, self.pipeline, key, "id", ME, preview=False)
            return {"erased": done.changed}

    def abandon(self) -> dict:
        batches = [b for (b,) in self.ask("select batch_id from lockstep.batch where state = 'planned' order by 1")]
        with self._at() as at:
            for batch in batches:
                decisions.abandon(at.conn, batch, ME)
        return {"abandoned": batches}

    def emit(self) -> dict:
        with self._at() as at:
            return {"emitted": dict(emit(at.conn, at.broker, self.pipeline).emitted)}

    def admit(self) -> dict:
        """Admits every late record, and counts it by a replay, as `lockstep late --admit` does."""
        with self._at() as at:
            asked = admit_late(at.conn, at.broker, self.folder, ME)
            if asked is None:
                return {"decision": "Idle", "committed": []}
            who = self._caller(take_over=True)
            return _told(list(until_idle(at, self._engine(), self.folder, who, wait=0, request_id=asked.request_id)))

    def reap(self) -> dict:
        with self._at() as at:
            return {
                "dropped": len(reap(at.conn).dropped),
                "whole": len(merge_parts(at.conn, kept=0)[0]),
                "merged": upkeep(at.conn, at.broker.view, least=2, most=5).merged,
            }


def _told(reports) -> dict:
    last = reports[-1]
    worked = [r.batch_id for r in reports if r.went_on and not r.superseded]
    blocked = last.decision if isinstance(last.decision, Blocked) else None
    return {
        "decision": type(last.decision).__name__,
        "committed": worked,
        "superseded": last.superseded,
        "reason": blocked and blocked.reason,
        "next": blocked and blocked.next_command,
    }


def _bound(what: dict[int, int] | int | None):
    if what is None:
        return None
    return AtBatch(what) if isinstance(what, int) else AtOffsets(what)
