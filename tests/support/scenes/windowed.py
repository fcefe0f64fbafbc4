"""Leads the drill into windows of a minute: its 150 records have 150 ids, and happen a second apart from noon on."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lockstep.ledger.migrate import migrate_target
from support.scenes.here import Here

if TYPE_CHECKING:
    from support.scenes.drill import Drill

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
TABLE = """create table if not exists public.by_minute (window_start timestamptz, window_end timestamptz not null, id text,
    records bigint, _revision int not null, _stream int4 not null, _offset int8 not null, _ordinal int4 not null,
    _batch int8 not null, primary key (window_start, id));"""
TARGET = 'Windows("public.by_minute", window=Tumbling("1 minute"), key=("id",), totals=(Count("records"),){})'


def happening(value):
    """Lets a record's event happen so many seconds after noon."""
    return value | {"at": (NOON + timedelta(seconds=value["n"])).isoformat()}


def into_windows(drill: Drill, *, of_target: str = "", of_time: str = "") -> Here:
    """Leads the drill into windows. The texts are further options of the target and of its event time."""
    here = Here(drill)
    here.code = happening
    here.rewrite("import Append,", "import Count, EventTime, Feed, Tumbling, Windows,")
    wanted = f'event_time=EventTime("at"{of_time}), target={TARGET.format(of_target)}'
    here.rewrite('target=Append("public.drill")', wanted)
    here.rewrite("id string, n int", "id string, n int, at timestamp")
    (drill.home / "drill" / "target.sql").write_text(TABLE)
    migrate_target(here.at.conn, here.folder)
    return here


def event(second: int, key: str) -> tuple[str, str]:
    """Returns a record whose event happens so many seconds after noon."""
    return key, json.dumps({"id": key, "n": second})
