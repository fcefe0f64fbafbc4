"""Defines `retention`, which says when Kafka deletes the first record that is not committed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.cli.history import OfLedger, known_pipeline
from lockstep.cli.options import Name, OneTopic
from lockstep.cli.output import AsJson, say, say_table, show
from lockstep.context.systems import open_ledger, surveyed_broker
from lockstep.core.errors import Refusal
from lockstep.core.health.health import duration
from lockstep.core.retention.prospects import Fate
from lockstep.core.text import cell, size_of_bytes

if TYPE_CHECKING:
    from lockstep.ledger.views.reading import Document

ALARM_HOURS, MOST_HOURS = 6.0, 10 * 366 * 24.0
AlarmHours = Annotated[
    float, typer.Option("--alarm", metavar="HOURS", help="Exit 1 below so many hours.", min=0, max=MOST_HOURS)
]


def retention_command(
    name: Name, topic: OneTopic = None, alarm: AlarmHours = ALARM_HOURS, as_json: AsJson = False
) -> None:
    """Say when Kafka may delete the first record that is not committed, if nothing more is committed.

    By time, that is its timestamp plus retention.ms. By size, it is when retention.bytes have come in from it on. Takes
    the rate of the last 24 hours, and that of the worst hour of 7 days. Kafka deletes whole segments, so a record may
    stay longer. Exits 1 if that is sooner than --alarm, or if a record is lost already.
    """
    from lockstep.steps.inspect.retention import retention_document

    found = known_pipeline(name)
    if isinstance(found, OfLedger) and found.forgetting:
        raise Refusal(f"{name}: it was forgotten, and reads no more records", next_command=f"lockstep status {name}")
    pipeline = (found.folder if isinstance(found, OfLedger) else found).pipeline
    with open_ledger() as conn:
        told = timedelta(hours=alarm), datetime.now(UTC)
        document = retention_document(conn, surveyed_broker(), pipeline, *told, topic)
    show(document, as_json, lambda: _say(document))
    if not document["ok"]:
        raise typer.Exit(1)


def _say(document: Document) -> None:
    names = ["partition", "first unread>", "waits>", "at today's rate", "at the worst hour's", "by"]
    say_table(names, [_row(each) for each in document["partitions"]])
    for line in _facts(document):
        say(f"  {line}")
    for unknown in document["not_known"]:
        say(f"  not known: {unknown}")
    say(f"{document['pipeline']}: {_verdict(document)}")
    if document["next"]:
        is_short = document["seconds"] is not None and document["seconds"] < document["alarm_hours"] * 3600
        below = f"below the alarm of {document['alarm_hours']:g} h.  " if is_short else ""
        say(f"{below}Next: {document['next']}")


def _row(each: Document) -> list[object]:
    waits = max(0, each["until_offset"] - max(each["first_unread"], each["log_start"]))
    is_other = each["state"] is Fate.ANOTHER_LOG  # its ends say nothing of the position
    where = [f"{each['topic']}-{each['partition']}", each["first_unread"], "-" if is_other else waits]
    if each["state"] is not Fate.WAITS:
        return [*where, each["state"], each["state"], "-"]
    return [*where, _minute(each["at_todays_rate"]), _minute(each["at_worst_hour"]), cell(each["by"])]


def _minute(moment: datetime | None) -> str:
    return "-" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")


def _facts(document: Document) -> list[str]:
    """Returns the settings that a deletion hangs on, and the pace of the fastest partition."""
    settings = document["settings"]
    several = len({each["topic"] for each in document["partitions"]}) > 1
    lines = [f"{document['topic']}, of the first deletion:"] if several else []
    lines.append(_settings(settings, "cleanup.policy", "retention.ms", "retention.bytes"))
    if settings["remote.storage.enable"]:
        lines.append(_settings(settings, "remote.storage.enable", "local.retention.ms", "local.retention.bytes"))
    looks = settings["log.retention.check.interval.ms"]
    every = f", looked at every {duration(looks / 1000)}" if looks else ""
    lines.append(f"whole segments go{every}, so that records may stay longer:")
    lines.append("  " + _settings(settings, "segment.ms", "segment.bytes"))
    lines.append(f"a record's time: {_settings(settings, 'message.timestamp.type')}")
    fastest = max(document["partitions"], key=lambda each: each["worst_hour"]["records_per_second"], default=None)
    if fastest:
        begins = _minute(fastest["worst_hour"]["since"])
        lines.append(f"the fastest partition today: {_pace(fastest['today'])}")
        lines.append(f"  in the worst hour, from {begins} on: {_pace(fastest['worst_hour'])}")
    return lines


def _settings(settings: Document, *names: str) -> str:
    return ", ".join(f"{name}={cell(settings[name])}" for name in names)


def _verdict(document: Document) -> str:
    partitions = document["partitions"]
    lost = [each for each in partitions if each["state"] is Fate.LOST]
    if lost:
        first = lost[0]
        gone = f"[{first['first_unread']}, {first['log_start']})"
        return f"{first['topic']}-{first['partition']}: offsets {gone} were deleted before they were committed"
    if other := next((each for each in partitions if each["state"] is Fate.ANOTHER_LOG), None):
        return f"topic {other['topic']} is another log now, and has none of the records that waited"
    if all(each["state"] is Fate.NOTHING_WAITS for each in partitions):
        return "nothing waits"
    first_at = document["deleted_at_earliest"]
    if first_at is None:
        return "nothing known deletes a record that waits"
    return f"may be deleted from {cell(first_at)} on, in {duration(document['seconds'])}, by {document['by']}"


def _pace(rate: Document) -> str:
    size = rate["bytes_per_second"]
    shown = "" if size is None else f", {size_of_bytes(size)}/s"
    return f"{rate['records_per_second']:,.3g} records/s{shown}"
