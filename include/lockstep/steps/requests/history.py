"""Records the requests and decisions of a history run, once for each run, however often its task is tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lockstep.adapters.kafka.topics import read_topics
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import BadData, Refusal
from lockstep.core.offsets import OffsetRange, TopicPartition
from lockstep.core.planning.bounds import AtOffsets, AtTime
from lockstep.core.planning.history import HistoryAction, RunMode, lost_offsets
from lockstep.core.planning.requests import Decided
from lockstep.core.planning.widened import widened
from lockstep.core.states import Lane
from lockstep.ledger.batch.streams import open_streams
from lockstep.ledger.changes import decisions, history, requests
from lockstep.steps.changes.decisions import accept_loss, deciding
from lockstep.steps.changes.evolve import require_proposed
from lockstep.steps.changes.skip import skip
from lockstep.steps.inspect.archived_records import read_held
from lockstep.steps.requests.requests import NewRequest, open_request, require_todays_logs, written_down
from lockstep.steps.windows.admit import LateWanted, admit_late, open_shown_admission, preview_admission
from lockstep.steps.windows.look import require_windows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from psycopg2.extensions import connection, cursor

    from lockstep.core.changes.person import Person
    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.bounds import Bound
    from lockstep.core.planning.history import RequestForm
    from lockstep.core.planning.requests import Request
    from lockstep.core.planning.widened import Widened
    from lockstep.steps.context import Context


REFUSED = "refuse-approval"


@dataclass(frozen=True, slots=True)
class Approval:
    """Both identities of an approval as Airflow records them. `claimed` is a user whom only an XCom names."""

    asked: RequestForm
    asker: str | None
    approver: dict[str, str] | None
    claimed: dict[str, str] | None = None

    def document(self) -> dict[str, Any]:
        """Returns the approval as plain JSON, for the ledger."""
        found = facts_shown(self.asked) | {"asker": self.asker, "approver": self.approver}
        return found | ({"claimed": self.claimed} if self.claimed else {})


def open_run_requests(
    at: Context, folder: PipelineFolder, asked: RequestForm, person: Person, now: datetime
) -> list[Request]:
    """Returns the requests of a run, one for each lane with something to do.

    Finds them by the run's key, or else records them. They are previews, unless the run does them at once.
    """
    if asked.mode != RunMode.DO and folder.pipeline.store is not None:
        raise Refusal(
            f"{'approval' if asked.mode == RunMode.APPROVE else 'preview'}: the results of {folder.pipeline.name} live in "
            f"{folder.pipeline.store}: what would change there cannot be shown beforehand",
        )
    preview = asked.mode != RunMode.DO
    known = {each.lane: each for each in run_requests(at.conn, folder.pipeline.name, person, preview=preview)}
    found: list[Request | None] = []
    for lane in asked.lanes:
        if asked.action == HistoryAction.ADMIT_LATE:
            require_windows(folder.pipeline)
            admit = preview_admission if preview else admit_late
            found.append(
                known.get(lane) or admit(at.conn, at.broker, folder, person, LateWanted(asked.topic, asked.partition))
            )
            continue
        wanted = NewRequest(lane, asked.begin, asked.end, asked.partition, preview, asked.topic)
        found.append(known.get(lane) or open_request(at.conn, at.broker, folder, wanted, person, now))
    return [each for each in found if each]


def run_requests(conn: connection, pipeline: str, person: Person, *, preview: bool) -> list[Request]:
    """Returns the requests of a run, in the order of its lanes."""
    newest: dict[Lane, Request] = {}
    with transaction(conn, READER) as cur:
        for request_id in history.requests_of_call(cur, pipeline, person.run or "", preview=preview):
            found = requests.read_request(cur, request_id)
            if found:
                newest[found.lane] = found
    return list(newest.values())


def widened_stretches(conn: connection, asked: RequestForm, asks: Iterable[Request]) -> list[Widened]:
    """Returns the stretches of a run's replays that reach over what was asked for.

    Omits those whose bounds are times that the ledger has not resolved.
    """
    found = []
    with transaction(conn, READER) as cur:
        for window in (window for each in asks if each.lane == Lane.REPLAY for window in each.windows):
            low, high = window.offsets.from_offset, window.offsets.until_offset
            begin = _edge(cur, asked.begin, window, unlimited=low, unnamed=high)
            end = _edge(cur, asked.end, window, unlimited=high, unnamed=low)
            at = window.offsets.topic_partition
            if asked.partition not in {None, at.partition} or asked.topic not in {None, at.topic}:
                begin = end = low
            if begin is not None and end is not None and (wider := widened(window.offsets, begin, end)):
                found.append(wider)
    return found


def _edge(cur: cursor, bound: Bound | None, window: StreamRange, *, unlimited: int, unnamed: int) -> int | None:
    """Returns a bound's offset in this stream, or None if the ledger has not resolved its time.

    `unnamed` stands for partitions that offsets leave out.
    """
    match bound:
        case AtOffsets(offsets):
            return offsets.get(window.offsets.topic_partition.partition, unnamed)
        case AtTime(moment):
            return requests.boundary(cur, window.stream_id, moment)
        case _:
            return unlimited


def committed_batches(conn: connection, pipeline: str, person: Person) -> list[Any]:
    """Returns the batches that have committed for a run, as rows (batch_id, token)."""
    asked = run_requests(conn, pipeline, person, preview=False)
    with transaction(conn, READER) as cur:
        return history.committed_by_requests(cur, [each.request_id for each in asked])


def approve(conn: connection, folder: PipelineFolder, approval: Approval, reviewer: Person) -> None:
    """Records who has approved the request that was shown. Refuses if it has changed since."""
    name = folder.pipeline.name
    if approval.asked.digest is not None:
        require_proposed(conn, folder, approval.asked.digest)
    previews = run_requests(conn, name, reviewer, preview=True)
    with deciding(conn, name) as cur:
        if history.decided_by_run(cur, name, "approve", reviewer.run or "", facts_shown(approval.asked)):
            return
        for shown in previews:
            _refuse_what_was_not_shown(folder, shown, history.committed_since(cur, shown.request_id))
        detail = approval.document() | {"previews": [shown.request_id for shown in previews]}
        decisions.record(cur, name, "approve", reviewer, detail)


def refuse_approval(conn: connection, pipeline: str, approval: Approval, reviewer: Person) -> None:
    """Records an approval that does not count, with both identities."""
    with deciding(conn, pipeline) as cur:
        decisions.record(cur, pipeline, REFUSED, reviewer, approval.document())


def is_approved(conn: connection, pipeline: str, key: str, asked: RequestForm) -> bool:
    """Returns True if the ledger holds the approval of this run, for what it asks for now."""
    with transaction(conn, READER) as cur:
        return history.decided_by_run(cur, pipeline, "approve", key, facts_shown(asked))


def facts_shown(asked: RequestForm) -> dict[str, Any]:
    """Returns what an approval is about, as plain JSON. A fill or replay is known by its previews.

    A run that was deleted and triggered again under its id may ask for something else.
    """
    facts: dict[str, Any] = {"action": asked.action}
    if asked.digest:
        facts["digest"] = asked.digest
    if asked.action == HistoryAction.ACCEPT_LOSS:
        facts["lost"] = {str(partition): list(pair) for partition, pair in lost_offsets(asked).items()}
        facts["topic"] = asked.topic
    return facts


def open_approved(at: Context, folder: PipelineFolder, person: Person) -> list[Request]:
    """Opens the requests that were shown and approved, in the name of the person who asked."""
    name = folder.pipeline.name
    known = {each.lane: each for each in run_requests(at.conn, name, person, preview=False)}
    found, view = [], read_held(at.conn, at.broker, folder.pipeline)
    for shown in run_requests(at.conn, name, person, preview=True):
        if shown.lane not in known:
            require_todays_logs(at.conn, at.broker, folder.pipeline, view, shown.windows)
        asker = replace(person, who=shown.who, why=shown.why)
        found.append(
            known.get(shown.lane)
            or open_shown_admission(at.conn, name, shown, asker)
            or written_down(at.conn, folder.pipeline, shown.lane, shown.windows, asker, view, preview=False)
        )
    return [each for each in found if each]


def decide_history(at: Context, pipeline: Pipeline, asked: RequestForm, person: Person, now: datetime) -> Decided:
    """Accepts the loss, or skips, once for a run."""
    if asked.action == HistoryAction.ACCEPT_LOSS:
        lines, changed = [], False
        for partition, (begin, end) in lost_offsets(asked).items():
            lost = OffsetRange(TopicPartition(pipeline.one_topic(asked.topic), partition), begin, end)
            loss = accept_loss(at.conn, at.broker, pipeline, lost, person)
            said = "is recorded as lost" if loss.changed else "was accepted as lost already"
            lines.append(f"{lost} {said}; the position is {loss.position}")
            changed |= loss.changed
        return Decided(lines, changed)
    with transaction(at.conn, READER) as cur:
        if history.decided_by_run(cur, pipeline.name, "skip", person.run or ""):
            return Decided(
                [f"{pipeline.name}: this run has skipped already; another skip is another run"], changed=False
            )
    done = skip(at.conn, at.broker, pipeline, asked.end, person, now, asked.topic)
    lines = [f"{item.offsets} is skipped and can be filled" for item in done.ranges]
    return Decided(lines or [f"{pipeline.name}: every position is there already"], bool(lines))


def given_up_offsets(at: Context, pipeline: Pipeline, asked: RequestForm) -> list[dict[str, Any]]:
    """Returns the offsets that an accepted loss would give up, with the position and the log's start."""
    lost = {TopicPartition(pipeline.one_topic(asked.topic), p): pair for p, pair in lost_offsets(asked).items()}
    with transaction(at.conn, READER) as cur:
        positions = {stream.topic_partition: stream.position for stream in open_streams(cur, pipeline.name)}
    seen = read_topics(at.broker, pipeline)
    return [
        {
            "partition": str(where),
            "from_offset": begin,
            "until_offset": end,
            "position": positions.get(where),
            "log_start": bounds.log_start if (bounds := seen.get(where)) else None,
        }
        for where, (begin, end) in lost.items()
    ]


def _refuse_what_was_not_shown(folder: PipelineFolder, shown: Request, since: list[int]) -> None:
    name = folder.pipeline.name
    if shown.rehearsal is None:
        raise BadData(f"{name}: {shown.lane} {shown.request_id} was not rehearsed", next_command="clear the run")
    if since or shown.rehearsal.content_hash != folder.content_hash():
        why = (
            f"batch {since[-1]} has committed offsets of it since" if since else "the pipeline's code has changed since"
        )
        raise BadData(f"{name}: what was approved is not what would be done now: {why}", next_command="clear the run")
