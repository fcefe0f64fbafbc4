"""Computes in Python, from every record that ever existed, the expected rows of each kind of target."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from simulation.values import becomes
from support.oracles.checker import look
from support.oracles.ledger_laws import OWNED

if TYPE_CHECKING:
    from collections import Counter

    from simulation.world import World
    from support.oracles.contents import Look

OF_OTHER_CODE = """select h._batch, h._stream, h.factor, a.spark_application_id from public.house h
    join lockstep.commit c on (c.batch_id, c.stream_id) = (h._batch, h._stream)
    join lockstep.attempt a on (a.batch_id, a.token) = (c.batch_id, c.token)
    where a.spark_application_id is distinct from 'factor ' || h.factor group by 1, 2, 3, 4"""
SEGMENTS = f"""select o.stream_id, lower(o.offsets), upper(o.offsets), a.spark_application_id
    from {OWNED} o join lockstep.attempt a using (batch_id, token)"""
SIZE, LATENESS = timedelta(seconds=60), timedelta(seconds=40)  # as the pipeline with windows says
JUDGED = """select stream_id, lower(offsets), upper(offsets),
    case when admitted_by is null and watermark > '-infinity' then watermark end from lockstep.judged"""
KNOWN = "select (key ->> 0)::timestamptz, key ->> 1, revision from lockstep.window_state"
STRANGERS = f"""select c.batch_id, c.stream_id, c.key from lockstep.contribution c
    left join {OWNED} o using (batch_id, stream_id) where o.batch_id is null"""


def looked_at(world: World, table: str, *, rest: bool = False, least: int = 0) -> Look:
    """Returns the violations that the independent checker finds, with the remembered log in Kafka's place.

    The checker must compare at least so many rows.
    """
    match world.kind:
        case "appended" | "by_batch" | "parts" | "once" | "two":
            key = None
        case "keyed":
            key = "id"
        case "ordered":
            key = lambda read, rejects: not_newest(world, read, rejects)  # type: ignore[assignment]  # noqa: E731 - as the checker asks
        case "versions" | "dated":
            key = lambda read, rejects: not_versions(world, read, rejects)  # type: ignore[assignment]  # noqa: E731 - as the checker asks
        case "windowed":
            key = lambda read, rejects: not_windowed(world, read, rejects)  # type: ignore[assignment]  # noqa: E731 - as the checker asks
        case _:
            key = lambda read, rejects: not_added_up(world, read, rejects)  # type: ignore[assignment]  # noqa: E731 - as the checker asks
    found = look(
        world.dsn,
        world.visible,
        "house",
        table,
        key,
        becomes=becomes(world.kind),
        unique="uid" if key is None and not world.may and world.each_record_stands_once else None,
        least=least,
        rest=rest,
        may=world.may,
        targets=len(world.tables),
    )
    others = [] if world.kind in {"accumulated", "windowed"} else world.ask(OF_OTHER_CODE)
    others = [each for each in others if world.kind != "versions" or each[2] is not None]  # no code makes a deletion
    found.violations += [
        f"batch {batch} has rows of stream {stream} by {code}, {by} committed" for batch, stream, code, by in others
    ]
    return found


def not_newest(world: World, read: dict[int, dict], rejects: Counter) -> list[str]:
    """Names keys whose row is not their newest record: by rank, then the stream's epoch, the offset, the stream."""
    epochs = dict(world.ask("select stream_id, epoch from lockstep.stream"))
    newest: dict[str, tuple] = {}
    for stream, offset, (_, value) in _accepted(read, rejects):
        record = json.loads(value)
        order = (record["rank"], epochs[stream], offset, stream)
        newest[record["id"]] = max(newest.get(record["id"], order), order)
    wanted = {key: (rank, offset, stream) for key, (rank, _, offset, stream) in newest.items()}
    rows = {key: tuple(row) for key, *row in world.ask("select id, rank, _offset, _stream from public.house")}
    return _told(wanted, rows, "its newest record")


def not_versions(world: World, read: dict[int, dict], rejects: Counter) -> list[str]:
    """Names records whose version is missing, or begins or ends at another moment than in one pass over all records.

    The pass takes the records of a key in their order, and lets each end all that stand at its moment.
    """
    epochs = dict(world.ask("select stream_id, epoch from lockstep.stream"))
    of_key = defaultdict(list)
    for stream, offset, (raw, value) in _accepted(read, rejects):
        record = json.loads(value) if value is not None else {"id": raw.decode()}
        begin = record.get("rank") if world.kind == "dated" else world.moment(stream, offset)
        rank = (record["rank"],) if world.kind == "dated" else ()
        order = (*rank, epochs[stream], offset, stream)
        of_key[record["id"]].append((order, begin, value is None, (stream, offset)))
    wanted: dict[tuple, tuple] = {}
    for key, records in of_key.items():
        standing: list[list] = []
        for _, begin, is_deletion, place in sorted(records):
            for version in standing:
                if version[1] is None or version[1] > begin:
                    version[1] = max(version[0], begin)
            standing.append([begin, begin if is_deletion else None, is_deletion, place])
        wanted |= {place: (key, begin, end, gone) for begin, end, gone, place in standing}
    columns = "_stream, _offset, id, valid_from, valid_until, _deleted"
    rows = {(s, o): tuple(row) for s, o, *row in world.ask(f"select {columns} from public.house")}
    return _told(wanted, rows, "the version of its record")


def not_added_up(world: World, read: dict[int, dict], rejects: Counter) -> list[str]:
    """Names keys whose row differs from that of a clean pass.

    A clean pass counts each owned record once, as the code of its batch's attempt made it.
    """
    counted = defaultdict(list)
    for stream, begin, end, application in world.ask(SEGMENTS):
        factor = int(application.removeprefix("factor "))
        owned = {offset: record for offset, record in read[stream].items() if begin <= offset < end}
        for _, offset, (_, value) in _accepted({stream: owned}, rejects):
            record = json.loads(value)
            n = None if record["n"] is None else record["n"] * factor
            counted[record["id"]].append((stream, offset, n, record.get("uid"), record.get("crc")))
    wanted = {key: _totals(found) for key, found in counted.items()}
    columns = "id, records, numbers, total, least, most, _stream, _offset, uids, crcs"
    rows = {key: tuple(row) for key, *row in world.ask(f"select {columns} from public.house")}
    return _told(wanted, rows, "its records") + [
        f"batch {batch} contributes to {key} from stream {stream}, which it does not own"
        for batch, stream, key in world.ask(STRANGERS)[:5]
    ]


def not_windowed(world: World, read: dict[int, dict], rejects: Counter) -> list[str]:
    """Names what differs from a clean pass in which each record is judged as its offset was judged.

    These are late rows, known windows, and the rows of those that are shown. No other window has a row.
    """
    judged = defaultdict(list)
    for stream, begin, end, watermark in world.ask(JUDGED):
        judged[stream].append((begin, end, watermark))
    counted, late = defaultdict(list), set()
    for stream, begin, end, application in world.ask(SEGMENTS):
        factor = int(application.removeprefix("factor "))
        owned = {offset: record for offset, record in read[stream].items() if begin <= offset < end}
        for _, offset, (_, value) in _accepted({stream: owned}, rejects):
            record = json.loads(value)
            (watermark,) = [each for low, high, each in judged[stream] if low <= offset < high]
            n = None if record["n"] is None else record["n"] * factor
            for start in _starts(datetime.fromisoformat(record["at"])):
                if watermark is not None and start + SIZE + LATENESS <= watermark:
                    late.add((stream, offset, start))
                else:
                    counted[start, record["id"]].append((stream, offset, n, record.get("uid"), record.get("crc")))
    kept = {tuple(row) for row in world.ask('select stream_id, "offset", window_start from lockstep.late')}
    wrong = [f"{place} is {'not ' * (place not in kept)}kept as late" for place in sorted(late ^ kept)][:5]
    known = {(start, key): revision for start, key, revision in world.ask(KNOWN)}
    wrong += [f"window {each} counts records and is not known" for each in sorted(counted.keys() - known.keys())][:5]
    wanted = {key: _totals(found)[:5] for key, found in counted.items() if known.get(key)}
    columns = "window_start, id, records, numbers, total, least, most"
    rows = {(start, key): tuple(row) for start, key, *row in world.ask(f"select {columns} from public.house")}
    revisions = {(s, k): r for s, k, r in world.ask("select window_start, id, _revision from public.house")}
    wrong += [
        f"window {key} has revision {r}, known is {known.get(key)}"
        for key, r in revisions.items()
        if known.get(key) != r
    ]
    return (
        wrong
        + _told(wanted, rows, "its records")
        + [
            f"batch {batch} contributes to {key} from stream {stream}, which it does not own"
            for batch, stream, key in world.ask(STRANGERS)[:5]
        ]
    )


def _starts(moment: datetime) -> list[datetime]:
    """Returns the starts of the windows of a minute, of which another one begins each half minute."""
    newest = moment.replace(second=moment.second // 30 * 30, microsecond=0)
    return [newest, newest - timedelta(seconds=30)]


def _accepted(read: dict[int, dict], rejects: Counter) -> list[tuple]:
    return [(s, o, record) for s, each in read.items() for o, record in each.items() if (s, o) not in rejects]


def _totals(found: list[tuple]) -> tuple:
    numbers = [number for _, _, number, _, _ in found if number is not None]
    stream, offset = max((stream, offset) for stream, offset, *_ in found)
    added = (sum(numbers), min(numbers), max(numbers)) if numbers else (None, None, None)
    seals = ([record[place] for record in found if record[place] is not None] for place in (3, 4))
    return (len(found), len(numbers), *added, stream, offset, *(sum(seal) if seal else None for seal in seals))


def _told(wanted: dict[Any, tuple], rows: dict[Any, tuple], what: str) -> list[str]:
    wrong = sorted(key for key in wanted.keys() | rows.keys() if wanted.get(key) != rows.get(key))
    return [f"key {key}: {what} are {wanted.get(key)}, its row has {rows.get(key)}" for key in wrong]
