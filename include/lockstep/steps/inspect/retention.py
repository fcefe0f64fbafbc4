"""Says when Kafka deletes the first record that a pipeline has not committed, at today's pace and the worst hour's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from lockstep.adapters.kafka.topics import read_topics
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.health.broker_findings import unreadable
from lockstep.core.offsets import TopicPartition
from lockstep.core.pipeline.names import has_appeared, topic_words
from lockstep.core.pipeline.schedule import start_of
from lockstep.core.planning.bounds import first_offsets
from lockstep.core.planning.hours import HOUR
from lockstep.core.retention.limits import retention_of
from lockstep.core.retention.prospects import Fate, Unread, prospect
from lockstep.ledger.batch.archived import with_archive
from lockstep.ledger.batch.plan import last_documents
from lockstep.ledger.views import rates, reading
from lockstep.steps.inspect.paces import DAYS_OF_HISTORY, paces_of, record_size
from lockstep.steps.inspect.warn import bounds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.facts import SurveyedBroker
    from lockstep.core.offsets import TopicView
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.retention.limits import Retention
    from lockstep.core.retention.prospects import Expiry, Prospect, Rate, Volume
    from lockstep.ledger.views.reading import Document

WORDS = ("cleanup.policy", "message.timestamp.type")
NUMBERS = (
    "retention.ms",
    "retention.bytes",
    "segment.ms",
    "segment.bytes",
    "local.retention.ms",
    "local.retention.bytes",
    "log.retention.check.interval.ms",
)


def retention_document(
    conn: connection,
    broker: SurveyedBroker,
    pipeline: Pipeline,
    alarm: timedelta,
    now: datetime,
    topic: str | None = None,
) -> Document:
    """Returns, per partition and for the pipeline, when its first record that waits may be deleted.

    `ok` is False if that is sooner than `alarm`, if a record is lost, or if its time is unknown. Today's pace is that of
    the log, whatever is committed. The worst hour and a record's size are what the ledger has counted in
    `DAYS_OF_HISTORY`. Of several topics, the settings are those of the topic that the answer hangs on. Refuses a topic
    whose settings the login may not read.
    """
    with transaction(conn, READER) as cur:
        streams = reading.stream_progress(cur, pipeline.name)
        known = tuple(last_documents(cur, pipeline.name, None))
    seen = read_topics(broker, pipeline)
    with transaction(conn, READER) as cur:
        every = with_archive(cur, pipeline, seen).topics
        since = now - timedelta(days=DAYS_OF_HISTORY)
        pasts = {view.topic: rates.committed_rates(cur, pipeline.name, view.topic, since, now) for view in every}
    views = [view for view in every if topic in {None, view.topic}]
    gone = sorted({row.topic for row in streams if topic in {None, row.topic}} - {view.topic for view in views})
    if not views:
        raise Refusal(
            f"{pipeline.name}: it reads no topic {topic or topic_words(pipeline.topic)} at {broker.bootstrap} now",
            next_command=f"lockstep status {pipeline.name}",
        )
    found = []
    for view in views:
        own = [row for row in streams if row.topic == view.topic]
        is_new = bool(streams) and not own and has_appeared(view.topic, known)
        unread = _unread(broker, pipeline, view, own, now, is_new=is_new)
        found.append(_of_topic(broker, pipeline, view, pasts[view.topic], unread, alarm, now))
    return _together(pipeline.name, found, gone)


def _of_topic(
    broker: SurveyedBroker,
    pipeline: Pipeline,
    view: TopicView,
    pasts: Mapping[int, Volume],
    unread: Sequence[Unread],
    alarm: timedelta,
    now: datetime,
) -> Document:
    """Returns the document of one topic."""
    facts = broker.topic_facts(view.topic)
    if facts.settings is None:
        finding = unreadable(facts)
        raise Refusal(f"{finding.subject}: {finding.found}", next_command=finding.remedy)
    limits, paces = retention_of(facts.settings), paces_of(broker, view, pasts, now)
    found = [
        prospect(each, limits, record_size(pasts, each.where.partition), paces[each.where.partition], now)
        for each in unread
    ]
    partitions = [_partition(pipeline, each, limits, alarm, now) for each in found]
    return {
        "pipeline": pipeline.name,
        "topic": facts.topic,
        "asked_at": now,
        "alarm_hours": alarm / HOUR,
        "ok": all(each["ok"] for each in partitions),
        **_deletions([each.at_todays_rate for each in found], [each.at_worst_hour for each in found], now),
        "settings": {name: facts.word(name, "") or None for name in WORDS}
        | {name: int(facts.settings[name]) if name in facts.settings else None for name in NUMBERS}
        | {"remote.storage.enable": facts.word("remote.storage.enable", "false") == "true"},
        "partitions": partitions,
        "not_known": _not_known(view.topic, limits, pasts, found),
        "next": _next(partitions),
    }


def _together(name: str, found: Sequence[Document], gone: Sequence[str]) -> Document:
    """Returns one document of all topics. `topic` and `settings` are those of the first deletion."""
    never = datetime.max.replace(tzinfo=UTC)
    first = min(found, key=lambda each: (each["deleted_at_earliest"] or never, each["ok"]))
    partitions = [each for one in found for each in one["partitions"]]
    times = {
        pace: min((one[pace] for one in found if one[pace]), default=None)
        for pace in ("at_todays_rate", "at_worst_hour")
    }
    away = [f"what is left of {each}: the topic is gone, or is not named any more" for each in gone]
    return {
        **first,
        **times,
        "ok": not gone and all(one["ok"] for one in found),
        "partitions": partitions,
        "not_known": [*away, *(line for one in found for line in one["not_known"])],
        "next": _next(partitions) or (f"lockstep status {name}" if gone else None),
    }


def _unread(
    broker: SurveyedBroker, pipeline: Pipeline, view: TopicView, streams: Sequence[Any], now: datetime, *, is_new: bool
) -> list[Unread]:
    """Returns what waits in each partition of the log, from the pipeline's position on, or from where it would begin.

    A topic that has appeared, `is_new`, is read from offset 0.
    Aborted records count, and those of open transactions: a segment goes by every record's time.
    """
    positions = {row.partition: row.position for row in streams}
    strangers = {row.partition for row in streams if bounds_of(row, view) is None}
    if is_new:
        positions = dict.fromkeys(view.bounds, 0)
    elif not streams:
        positions = first_offsets(start_of(pipeline.start), view, partial(broker.offsets_at, view), now)
    highs = broker.high_ends(view)
    starts = {p: bounds.log_start for p, bounds in view.bounds.items()}
    at = {p: max(positions.get(p, start), start) for p, start in starts.items()}
    waiting = {p: offset for p, offset in at.items() if offset < highs[p] and p not in strangers}
    times = broker.first_times(view.topic, waiting, committed=False)
    found = []
    for p, bounds in sorted(view.bounds.items()):
        position = positions.get(p, bounds.log_start)
        gap = bounds.gap(position)  # files may hold what the log has not
        first, start = gap or (position, min(position, bounds.log_start))
        found.append(
            Unread(
                TopicPartition(view.topic, p),
                first,
                start,
                highs[p],
                times.get(p),
                empty=times.get(p, now) is None,
                same_log=p not in strangers,
                archived=first > position,
            )
        )
    return found


def _partition(pipeline: Pipeline, found: Prospect, limits: Retention, alarm: timedelta, now: datetime) -> Document:
    unread, first = found.unread, found.earliest
    wrong = {Fate.LOST, Fate.ANOTHER_LOG} | ({Fate.UNKNOWN} if limits.time is not None else set())
    well = unread.fate not in wrong and (first is None or first.at - now >= alarm)
    return {
        "topic": unread.where.topic,
        "partition": unread.where.partition,
        "state": unread.fate,
        "ok": well,
        "first_unread": unread.position,
        "log_start": unread.log_start,
        "until_offset": unread.high_end,
        "time": unread.since,
        "waiting_bytes": None if found.size is None else round(found.size),
        **_deletions([found.at_todays_rate], [found.at_worst_hour], now),
        "today": _pace(found.today),
        "worst_hour": _pace(found.worst_hour),
        "next": None if well else _help(pipeline, unread),
    }


def _deletions(today: Iterable[Expiry | None], worst_hour: Iterable[Expiry | None], now: datetime) -> Document:
    """Returns the first deletion at each pace, and the earliest of all with its limit."""
    at_today = min((each for each in today if each), default=None)
    at_worst = min((each for each in worst_hour if each), default=None)
    first = min((each for each in (at_today, at_worst) if each), default=None)
    return {
        "deleted_at_earliest": first.at if first else None,
        "by": first.by if first else None,
        "seconds": round((first.at - now).total_seconds(), 3) if first else None,
        "at_todays_rate": at_today.at if at_today else None,
        "at_worst_hour": at_worst.at if at_worst else None,
    }


def _pace(rate: Rate) -> Document:
    size = None if rate.size is None else round(rate.size, 3)
    return {"since": rate.begins, "records_per_second": round(rate.records, 3), "bytes_per_second": size}


def _help(pipeline: Pipeline, unread: Unread) -> str:
    name, topic = pipeline.name, pipeline.topic_option(unread.where.topic)
    match unread.fate:
        case Fate.LOST if not unread.archived:
            where = f"--partition {unread.where.partition} --from {unread.position} --until {unread.log_start}"
            return f"lockstep accept-loss {name}{topic} {where} --reason ..."
        case Fate.ANOTHER_LOG | Fate.UNKNOWN:
            return f"lockstep status {name}"
        case _:
            return f"lockstep run {name} --until-idle"


def _next(partitions: Sequence[Document]) -> str | None:
    """Returns the command for the partition that is worst off: first one that a run cannot help."""
    wrong = sorted((each for each in partitions if not each["ok"]), key=lambda each: each["state"] == Fate.WAITS)
    return wrong[0]["next"] if wrong else None


def _not_known(topic: str, limits: Retention, pasts: Mapping[int, Volume], found: Sequence[Prospect]) -> list[str]:
    unread = [each.unread for each in found if each.unread.fate is Fate.UNKNOWN]
    unknown = [f"{each.where}: the broker did not tell the time of offset {each.position}" for each in unread]
    if limits.size is not None and not pasts:
        unknown.append(
            f"when retention.bytes is reached in {topic}: no batch read a record of the last {DAYS_OF_HISTORY} days, "
            "so its size is unknown"
        )
    return unknown
