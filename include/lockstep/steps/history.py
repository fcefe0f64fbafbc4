"""Records the requests and decisions of a history run, once for each run, however often its task is tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import BadData, Refusal
from lockstep.core.history import APPROVE, DO, lost_offsets
from lockstep.core.offsets import OffsetRange, TopicPartition
from lockstep.ledger import decisions, history, requests
from lockstep.ledger.plan import open_streams
from lockstep.steps.decisions import accept_loss, deciding
from lockstep.steps.requests import Asked, Wanted, ask, written_down
from lockstep.steps.skip import skip

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg2.extensions import connection

    from lockstep.core.definition import Pipeline
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.history import Asking
    from lockstep.core.offsets import StreamRange
    from lockstep.core.person import Person
    from lockstep.steps.surroundings import Surroundings


REFUSED = "refuse-approval"


@dataclass(frozen=True, slots=True)
class Called:
    """The newest request of a run in a lane. `difference` is the result of a preview that finished."""

    request_id: int
    lane: str
    is_closed: bool
    person: Person
    windows: tuple[StreamRange, ...]
    content_hash: str | None = None
    difference: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Approval:
    """Both identities of an approval as Airflow records them. `claimed` is a user whom only an XCom names."""

    action: str
    asker: str | None
    approver: dict[str, str] | None
    claimed: dict[str, str] | None = None

    def document(self) -> dict[str, Any]:
        """Returns the approval as plain JSON, for the ledger."""
        found = {"action": self.action, "asker": self.asker, "approver": self.approver}
        return found | ({"claimed": self.claimed} if self.claimed else {})


def open_requests(
    at: Surroundings, folder: PipelineFolder, asked: Asking, person: Person, now: datetime
) -> list[Asked]:
    """Returns the requests of a run, one for each lane with something to do.

    Finds them by the run's key, or else records them. They are previews, unless the run does them at once.
    """
    if asked.mode != DO and folder.pipeline.store is not None:
        raise Refusal(
            f"{'approval' if asked.mode == APPROVE else 'preview'}: the results of {folder.pipeline.name} live in "
            f"{folder.pipeline.store}: what would change there cannot be shown beforehand",
        )
    known = {each.lane: each for each in called(at.conn, folder.pipeline.name, person, preview=asked.mode != DO)}
    found = []
    for lane in asked.lanes:
        if lane in known:
            found.append(Asked(known[lane].request_id, known[lane].windows, goes_on=True))
            continue
        wanted = Wanted(lane, asked.begin, asked.end, asked.partition, preview=asked.mode != DO)
        found.append(ask(at.conn, at.broker, folder, wanted, person, now))
    return [each for each in found if each.request_id is not None]


def called(conn: connection, pipeline: str, person: Person, *, preview: bool) -> list[Called]:
    """Returns the requests of a run, in the order of its lanes."""
    newest: dict[str, Called] = {}
    with transaction(conn, READER) as cur:
        for row in history.requests_of_call(cur, pipeline, person.run or ""):
            if row.preview == preview:
                shown = history.rehearsal(cur, row.request_id)
                newest[row.lane] = Called(
                    row.request_id,
                    row.lane,
                    row.closed,
                    replace(person, who=row.who, why=row.why),
                    requests.windows(cur, row.request_id),
                    shown and shown.content_hash,
                    shown and shown.difference,
                )
    return list(newest.values())


def committed(conn: connection, pipeline: str, person: Person) -> list[Any]:
    """Returns the batches that have committed for a run, as rows (batch_id, token)."""
    asked = called(conn, pipeline, person, preview=False)
    with transaction(conn, READER) as cur:
        return history.committed_by_requests(cur, [each.request_id for each in asked])


def approve(conn: connection, folder: PipelineFolder, approval: Approval, reviewer: Person) -> None:
    """Records who has approved the request that was shown. Refuses if it has changed since."""
    name = folder.pipeline.name
    previews = called(conn, name, reviewer, preview=True)
    with deciding(conn, name) as cur:
        if history.decided_by_run(cur, name, "approve", reviewer.run or ""):
            return
        for shown in previews:
            _refuse_what_was_not_shown(folder, shown, history.committed_since(cur, shown.request_id))
        detail = approval.document() | {"previews": [shown.request_id for shown in previews]}
        decisions.record(cur, name, "approve", reviewer, detail)


def refuse_approval(conn: connection, pipeline: str, approval: Approval, reviewer: Person) -> None:
    """Records an approval that does not count, with both identities."""
    with deciding(conn, pipeline) as cur:
        decisions.record(cur, pipeline, REFUSED, reviewer, approval.document())


def is_approved(conn: connection, pipeline: str, key: str) -> bool:
    """Returns True if the ledger holds the approval of this run."""
    with transaction(conn, READER) as cur:
        return history.decided_by_run(cur, pipeline, "approve", key)


def open_approved(at: Surroundings, folder: PipelineFolder, person: Person) -> list[Asked]:
    """Opens the requests that were shown and approved, in the name of the person who asked."""
    name = folder.pipeline.name
    known = {each.lane: each for each in called(at.conn, name, person, preview=False)}
    found, view = [], at.broker.view(folder.pipeline.topic)
    for shown in called(at.conn, name, person, preview=True):
        if shown.lane in known:
            found.append(Asked(known[shown.lane].request_id, known[shown.lane].windows, goes_on=True))
            continue
        opened = written_down(at.conn, folder.pipeline, shown.lane, shown.windows, shown.person, view, preview=False)
        found.append(opened)
    return [each for each in found if each.request_id is not None]


def decide(at: Surroundings, pipeline: Pipeline, asked: Asking, person: Person, now: datetime) -> list[str]:
    """Accepts the loss, or skips, once for a run. Returns a line on each stretch of offsets."""
    if asked.action == "accept-loss":
        lines = []
        for partition, (begin, end) in lost_offsets(asked).items():
            lost = OffsetRange(TopicPartition(pipeline.topic, partition), begin, end)
            loss = accept_loss(at.conn, at.broker, pipeline, lost, person)
            said = "is recorded as lost" if loss.changed else "was accepted as lost already"
            lines.append(f"{lost} {said}; the position is {loss.position}")
        return lines
    with transaction(at.conn, READER) as cur:
        if history.decided_by_run(cur, pipeline.name, "skip", person.run or ""):
            return [f"{pipeline.name}: this run has skipped already; another skip is another run"]
    done = skip(at.conn, at.broker, pipeline, asked.end, person, now)
    return [f"{item.offsets} is skipped and can be filled" for item in done.ranges] or [
        f"{pipeline.name}: every position is there already"
    ]


def given_up_offsets(at: Surroundings, pipeline: Pipeline, asked: Asking) -> list[dict[str, Any]]:
    """Returns the offsets that an accepted loss would give up, with the position and the log's start."""
    with transaction(at.conn, READER) as cur:
        positions = {stream.partition: stream.position for stream in open_streams(cur, pipeline.name)}
    bounds = at.broker.view(pipeline.topic).bounds
    return [
        {
            "partition": f"{pipeline.topic}-{p}",
            "from_offset": begin,
            "until_offset": end,
            "position": positions.get(p),
            "log_start": bounds[p].log_start if p in bounds else None,
        }
        for p, (begin, end) in lost_offsets(asked).items()
    ]


def _refuse_what_was_not_shown(folder: PipelineFolder, shown: Called, since: list[int]) -> None:
    name = folder.pipeline.name
    if shown.difference is None:
        raise BadData(f"{name}: {shown.lane} {shown.request_id} was not rehearsed", next_command="clear the run")
    if since or shown.content_hash != folder.content_hash():
        why = (
            f"batch {since[-1]} has committed offsets of it since" if since else "the pipeline's code has changed since"
        )
        raise BadData(f"{name}: what was approved is not what would be done now: {why}", next_command="clear the run")
