"""Hands one pipeline's table over to another one, which continues where the first one stopped."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import Refusal
from lockstep.core.health.ownership import Owner, tables_of
from lockstep.core.offsets import Bounds, TopicView
from lockstep.core.pipeline.targets import Windows
from lockstep.ledger.batch.plan import lock_pipeline
from lockstep.ledger.batch.streams import open_new_streams, open_streams, retire_stream
from lockstep.ledger.changes import decisions, owners
from lockstep.ledger.changes.requests import close_requests_of
from lockstep.steps.changes.decisions import deciding

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.core.changes.person import Person
    from lockstep.core.health.ownership import Table
    from lockstep.core.offsets import Stream
    from lockstep.core.pipeline.definition import Pipeline


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The table, and per partition the offset at which the new owner begins.

    The offsets are empty if the new owner has positions of its own.
    """

    table: Table
    positions: dict[int, int]


def hand_over(conn: connection, table: str, giver: str, receiver: Pipeline, person: Person) -> HandedOver:
    """Makes `receiver` the owner of a table in place of `giver`, and records the decision for both pipelines.

    A receiver of the same topic that has read nothing yet begins at the giver's positions. No record comes twice.
    """
    if giver == receiver.name:
        raise Refusal(
            f"{table}: {giver} would hand it over to itself",
            next_command=f"lockstep hand-over {table} --from {giver} --to OTHER --reason ...",
        )
    its = next((each for each in tables_of(receiver) if each.name == table), None)
    if its is None:
        names = ", ".join(str(each) for each in tables_of(receiver)) or "no table"
        raise Refusal(
            f"{receiver.name}: its definition writes {names}, not {table}",
            next_command=f"lockstep check {receiver.name}",
        )
    first, second = sorted((giver, receiver.name))  # one lock order for every caller that takes two
    with deciding(conn, first) as cur:
        lock_pipeline(cur, second)
        owners.lock_owners(cur, its)
        recorded = owners.recorded_owners(cur, its)
        _refuse_a_stranger(cur, its, giver, receiver, recorded)
        target = tables_of(receiver)[its]
        if isinstance(target, Windows) or owners.windows_conflict(cur, receiver.name, its, target):
            raise Refusal(
                f"{table} has windows, and their event time is that of {giver}: it cannot be handed over",
                next_command=f"give {receiver.name} a table of its own; or lockstep rename {giver} NEW --reason WHY",
            )
        unfinished = owners.unfinished_of_pipeline(cur, giver)
        if unfinished:
            raise Refusal(
                f"{giver}: batch {unfinished[0]} is unfinished and would write {its}",
                next_command=f"lockstep run {giver}, or lockstep abandon {unfinished[0]} --reason ...",
            )
        owners.remove_owner(cur, its, giver)
        is_new = all(owner.pipeline != receiver.name for owner in recorded)
        if is_new:
            shared = [owner for owner in recorded if owner.pipeline != giver]
            if shared:
                raise Refusal(
                    f"{its}: {giver} shares it with {', '.join(owner.pipeline for owner in shared)}, which {receiver.name} is "
                    "not one of",
                    next_command=f"lockstep hand-over {table} --from {giver} --to {shared[0].pipeline} --reason ...",
                )
            owners.record_owner(cur, its, Owner(receiver.name))
        own, given = _where_it_ended(cur, giver, receiver, is_former=bool(recorded) and is_new)
        positions = {partition: stream.position for partition, stream in given.items()}
        detail = {
            "store": its.store,
            "target": its.name,
            "from": giver,
            "to": receiver.name,
            "positions": {str(partition): position for partition, position in positions.items()},
            "retired": [{"stream_id": stream.stream_id, "position": stream.position} for stream in own],
        }
        for name in (giver, receiver.name):
            decisions.record(cur, name, "hand-over", person, detail)
        if given:
            _begin_there(cur, receiver, own, given)
    return HandedOver(its, positions)


def _refuse_a_stranger(cur: Any, table: Table, giver: str, receiver: Pipeline, recorded: list[Owner]) -> None:
    names = [owner.pipeline for owner in recorded] or owners.writers(cur, table)
    if giver in names:
        return
    owned = f"it belongs to {', '.join(names)}" if names else "no pipeline has written it yet"
    following = f"lockstep migrate {receiver.name}"
    if names and names != [receiver.name]:
        following = f"lockstep hand-over {table.name} --from {names[0]} --to {receiver.name} --reason ..."
    raise Refusal(f"{table}: {giver} cannot hand it over: {owned}", next_command=following)


def _where_it_ended(
    cur: Any, giver: str, receiver: Pipeline, *, is_former: bool
) -> tuple[tuple[Stream, ...], dict[int, Stream]]:
    """Returns the receiver's streams that close, and by partition the streams after which it begins.

    Nothing, if it reads another topic. A receiver with streams keeps its positions, unless it is a former owner. The
    giver has read what lies below. The decision keeps these positions, so that no fill reads it again.
    """
    given: list[Stream] = [s for s in open_streams(cur, giver) if s.topic_partition.topic == receiver.only_topic]
    own = open_streams(cur, receiver.name)
    if not given or (own and not is_former):
        return (), {}
    newest = {stream.partition: stream for stream in given}
    for stream in own:
        if stream.log == given[0].log and stream.position >= newest.get(stream.partition, stream).position:
            newest[stream.partition] = stream
    if {p: each.position for p, each in newest.items()} == {stream.partition: stream.position for stream in own}:
        return (), {}
    return own, dict(sorted(newest.items()))


def _begin_there(cur: Any, receiver: Pipeline, own: tuple[Stream, ...], given: dict[int, Stream]) -> None:
    """Closes the receiver's streams, and opens others after the given ones."""
    for stream in own:
        retire_stream(cur, stream.stream_id)
    close_requests_of(cur, streams=[stream.stream_id for stream in own])
    seen = {p: Bounds(stream.position, stream.position, stream.leader_epoch) for p, stream in given.items()}
    one = next(iter(given.values()))
    log = TopicView(one.cluster_id, receiver.only_topic, one.topic_id, seen)
    open_new_streams(cur, receiver.name, log, {p: stream.position for p, stream in given.items()}, same_log=False)


def hand_over_document(done: HandedOver, giver: str, receiver: str) -> dict[str, Any]:
    """Describes the hand-over, for `--json`."""
    positions = [{"partition": p, "position": position} for p, position in sorted(done.positions.items())]
    return asdict(done.table) | {"from": giver, "to": receiver, "begins_at": positions}
