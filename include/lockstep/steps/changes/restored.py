"""Records that the ledger was restored: names the losses, and draws no id twice from then on."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from lockstep.adapters.kafka.group import mirrored, set_back_group
from lockstep.adapters.kafka.topics import read_topics
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.changes.restored import Evidence, ahead_of, needs, told_beyond, windows_need
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.pipeline.names import group_of
from lockstep.ledger.batch.streams import open_streams
from lockstep.ledger.changes import decisions
from lockstep.ledger.changes import restored as ledger
from lockstep.ledger.windows.times import read_watermark
from lockstep.steps.changes.decisions import deciding, refuse_another_log
from lockstep.steps.feed.look_at_relay import relay_needs
from lockstep.steps.lake.look import lake_needs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.person import Person
    from lockstep.core.offsets import OffsetRange, Stream
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.targets.stores.delivery import Results


@dataclass(frozen=True, slots=True)
class Restored:
    """The evidence that was found, and what the guarantee needs. `recorded` is False for a preview."""

    evidence: Evidence
    needs: tuple[str, ...]
    recorded: bool


def restored(
    conn: connection,
    broker: Broker,
    pipeline: Pipeline,
    results: Results | None,
    person: Person | None,
    *,
    past_token: int = 0,
) -> Restored:
    """Compares the ledger with the places that did not go back.

    With a person, it records the decision, and draws ids past theirs. `results` is the store that lies elsewhere.
    `past_token` is a token that a person has seen in a log or in Airflow.
    """
    streams = _streams(conn, pipeline)
    _refuse_another_log(broker, pipeline, streams)
    group = group_of(pipeline.name)
    told = told_beyond(streams, mirrored(broker, group, [stream.topic_partition for stream in streams]))
    evidence = _evidence(conn, pipeline, streams, results, past_token, told)
    if person is None:
        return Restored(evidence, needs(pipeline, evidence, _beside(conn, broker, pipeline)), recorded=False)
    with deciding(conn, pipeline.name) as cur:
        decisions.record(cur, pipeline.name, "restored", person, _detail(evidence))
        ledger.pass_over(cur, evidence)
    if told:
        with suppress(Unreachable):  # without them lag tools show too little, and nothing else is wrong
            set_back_group(broker, group, {stream.topic_partition: stream.position for stream in streams})
    return Restored(evidence, needs(pipeline, evidence, _beside(conn, broker, pipeline)), recorded=True)


def _beside(conn: connection, broker: Broker, pipeline: Pipeline) -> list[str]:
    """Returns what relays, windows and lake tables need. A look at them changes nothing."""
    found = relay_needs(conn, broker, pipeline)
    if pipeline.windows:
        with transaction(conn, READER) as cur:
            at = read_watermark(cur, pipeline.name)
        found += [windows_need(pipeline.name, target.table, at and at.watermark) for target in pipeline.windows]
    return [*found, *lake_needs(conn, pipeline)]


def _streams(conn: connection, pipeline: Pipeline) -> Sequence[Stream]:
    with transaction(conn, READER) as cur:
        streams = open_streams(cur, pipeline.name)
    if not streams:
        raise Refusal(
            f"{pipeline.name}: the ledger has no open stream of it, so there is nothing to compare with",
            next_command=f"lockstep plan {pipeline.name}",
        )
    return streams


def _refuse_another_log(broker: Broker, pipeline: Pipeline, streams: Sequence[Stream]) -> None:
    view = read_topics(broker, pipeline)
    for stream in streams:
        refuse_another_log(stream, pipeline, view.log_of(stream.topic_partition.topic))


def _evidence(
    conn: connection,
    pipeline: Pipeline,
    streams: Sequence[Stream],
    results: Results | None,
    past_token: int,
    told: tuple[OffsetRange, ...],
) -> Evidence:
    seen = results.seen(pipeline) if results is not None and pipeline.store is not None else ()
    with transaction(conn, READER) as cur:
        others = ledger.streams_of_others(cur, pipeline.name)
        own = tuple(each for each in seen if each.stream_id not in others)
        strange = ledger.unknown_to_ledger(cur, own)
    return Evidence(
        told,
        strange,
        ahead_of(streams, own),
        max([past_token, *(each.token or 0 for each in own)]),
        max([0, *(each.batch_id for each in own)]),
        max([0, *(each.stream_id for each in own)]),
    )


def _detail(evidence: Evidence) -> dict[str, object]:
    told = [
        {
            "topic": r.topic_partition.topic,
            "partition": r.topic_partition.partition,
            "from_offset": r.from_offset,
            "until_offset": r.until_offset,
        }
        for r in evidence.told
    ]
    return {
        "told": told,
        "strange": [asdict(each) for each in evidence.strange],
        "ahead": [asdict(each) for each in evidence.ahead],
        "past": {"token": evidence.past_token, "batch": evidence.past_batch, "stream": evidence.past_stream},
    }
