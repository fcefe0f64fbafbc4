"""Defines `retention`, which says when Kafka deletes the first record that is not committed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.cli.history import OfLedger, known_pipeline
from lockstep.cli.options import Name
from lockstep.cli.output import AsJson, say, say_table, show
from lockstep.context.systems import open_ledger, surveyed_broker
from lockstep.core.errors import Refusal
from lockstep.core.health.health import duration
from lockstep.core.retention import Fate
from lockstep.core.text import cell

if TYPE_CHECKING:
    from lockstep.ledger.views.reading import Document

ALARM_HOURS, MOST_HOURS = 6.0, 10 * 366 * 24.0
Alarm = Annotated[
    float, typer.Option("--alarm", metavar="HOURS", help="Exit 1 below so many hours.", min=0, max=MOST_HOURS)
]
SIZES = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def retention_command(name: Name, alarm: Alarm = ALARM_HOURS, as_json: AsJson = False) -> None:
    """Say when Kafka may delete the first record that is not committed, if nothing more is committed.

    By time, that is its timestamp plus retention.ms. By size, it is when retention.bytes come in behind it: at the rate
    of the last 24 hours, and at that of the worst hour of 7 days. Kafka deletes whole segments, so a record may stay
    longer. Exits 1 if that is sooner than --alarm, or if a record is lost already.
    """
    from lockstep.steps.inspect.retention import retention as ask

    found = known_pipeline(name)
    if isinstance(found, OfLedger) and found.forgetting:
        raise Refusal(f"{name}: it was forgotten, and reads no more records", next_command=f"lockstep status {name}")
    pipeline = (found.folder if isinstance(found, OfLedger) else found).pipeline
    with open_ledger() as conn:
        document = ask(conn, surveyed_broker(), pipeline, timedelta(hours=alarm), datetime.now(UTC))
    show(document, as_json, lambda: _say(document))
    if not document["ok"]:
        raise typer.Exit(1)


def _say(document: Document) -> None:
    name, partitions = document["pipeline"], document["partitions"]
    names = ["partition", "first unread>", "waits>", "at today's rate", "at the worst hour's", "by"]
    say_table(names, [_row(each) for each in partitions])
    for line in _facts(document):
        say(f"  {line}")
    for unknown in document["not_known"]:
        say(f"  not known: {unknown}")
    say(f"{name}: {_verdict(document)}" + (f"  Next: {document['next']}" if document["next"] else ""))


def _row(each: Document) -> list[object]:
    waits = max(0, each["until_offset"] - max(each["first_unread"], each["log_start"]))
    where = [f"{each['topic']}-{each['partition']}", each["first_unread"], waits]
    if each["state"] is not Fate.WAITS:
        return [*where, each["state"], each["state"], "-"]
    return [*where, cell(each["at_todays_rate"]), cell(each["at_worst_hour"]), cell(each["by"])]


def _facts(document: Document) -> list[str]:
    """Returns the settings that a deletion hangs on, and the pace of the fastest partition."""
    settings = document["settings"]
    kept = [f"{name}={settings[name]}" for name in ("cleanup.policy", "retention.ms", "retention.bytes")]
    if settings["remote.storage.enable"]:
        local = ("remote.storage.enable", "local.retention.ms", "local.retention.bytes")
        kept += [f"{name}={settings[name]}" for name in local]
    lines = [", ".join(kept)]
    segments = f"segment.ms={settings['segment.ms']}, segment.bytes={settings['segment.bytes']}"
    looks = settings["log.retention.check.interval.ms"]
    every = f", and looks every {duration(looks / 1000)}" if looks else ""
    lines.append(f"Kafka deletes whole segments ({segments}){every}: records may stay longer")
    fastest = max(document["partitions"], key=lambda each: each["worst_hour"]["records_per_second"], default=None)
    if fastest:
        today, worst = fastest["today"], fastest["worst_hour"]
        lines.append(
            f"fastest partition: {_pace(today)} today, {_pace(worst)} in the worst hour, from {cell(worst['since'])}"
        )
    return lines


def _verdict(document: Document) -> str:
    lost = [each for each in document["partitions"] if each["state"] is Fate.LOST]
    if lost:
        first = lost[0]
        gone = f"[{first['first_unread']}, {first['log_start']})"
        return f"{first['topic']}-{first['partition']}: offsets {gone} were deleted before they were committed"
    if any(each["state"] is Fate.ANOTHER_LOG for each in document["partitions"]):
        return "the topic is another log now, so what it keeps says nothing of the records that are not committed"
    if all(each["state"] is Fate.NOTHING_WAITS for each in document["partitions"]):
        return "nothing waits"
    first_at = document["deleted_at_earliest"]
    if first_at is None:
        return "nothing known deletes a record that waits"
    left = f"in {duration(document['seconds'])}"
    below = "" if document["ok"] else f", below the alarm of {document['alarm_hours']:g} h"
    return f"the first unread record may be deleted from {cell(first_at)} on, {left}, by {document['by']}{below}"


def _pace(rate: Document) -> str:
    size = rate["bytes_per_second"]
    shown = "" if size is None else f" ({_size(size)}/s)"
    return f"{rate['records_per_second']:,.1f} records/s{shown}"


def _size(size: float) -> str:
    return next((f"{size / unit:.1f} {name}" for name, unit in SIZES if size >= unit), f"{size:.0f} bytes")
