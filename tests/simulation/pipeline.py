"""Defines the house's one pipeline, with each kind of target, over a topic that is only remembered."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.core.pipeline.definition import (
    Accumulate,
    Append,
    AtLeastOnce,
    Count,
    Debezium,
    EventTime,
    History,
    Hopping,
    Json,
    Limits,
    Max,
    Min,
    PerBatch,
    Pipeline,
    Sum,
    Upsert,
    Windows,
)
from lockstep.core.pipeline.folder import PipelineFolder

if TYPE_CHECKING:
    from pathlib import Path

    from lockstep.core.pipeline.definition import Feed
    from lockstep.core.pipeline.guarantees import Guarantee

ORIGIN = "_stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null"
SEAL = "uid bigint, crc bigint"  # a record's own id and the checksum of its content
COLUMNS = f"id text {{key}}, n bigint, factor int, {ORIGIN}, {SEAL}"
BY_BATCH = (
    f"create table public.house ({COLUMNS.format(key='')}, primary key (_stream, _offset, _ordinal, _batch)) "
    "partition by list (_batch);"
)
KEYED = f"create table public.house ({COLUMNS.format(key='primary key')});"
VERSIONED = (
    "create table public.house ({columns}, valid_from {moment} not null, valid_until {moment}, _deleted boolean not null, "
    "primary key (_stream, _offset, _ordinal));"
)
DDL = {
    "appended": f"create table public.house ({COLUMNS.format(key='')}, primary key (_stream, _offset, _ordinal));",
    "two": "".join(
        f"create table public.{name} ({COLUMNS.format(key='')}, primary key (_stream, _offset, _ordinal));"
        for name in ("house", "house_second")
    ),
    "by_batch": BY_BATCH,
    "parts": BY_BATCH,
    "once": f"create table public.house_rows ({COLUMNS.format(key='')}, primary key (_stream, _offset, _ordinal));",
    "keyed": KEYED,
    "ordered": KEYED.replace("n bigint", "n bigint, rank int"),
    "versions": VERSIONED.format(columns=COLUMNS.format(key="not null"), moment="timestamptz"),
    "dated": VERSIONED.format(columns=COLUMNS.format(key="not null"), moment="int").replace(
        "n bigint", "n bigint, rank int"
    ),
    "mirrored": f"create table public.house (id bigint primary key, name text, doc text, photo bytea, {ORIGIN});",
    "sourced": "create table public.house (id bigint primary key, name text, doc text, photo bytea, _source_order bytea, "
    f"{ORIGIN});",
    "accumulated": "create table public.house (id text primary key, records bigint, numbers bigint, total numeric, "
    f"least bigint, most bigint, {ORIGIN}, uids numeric, crcs numeric);",
    "windowed": "create table public.house (window_start timestamptz, window_end timestamptz not null, id text, "
    f"records bigint, numbers bigint, total numeric, least bigint, most bigint, _revision int not null, {ORIGIN}, "
    "uids numeric, crcs numeric, primary key (window_start, id));",
}
TOTALS = (
    Count("records"),
    Count("numbers", of="n"),
    Sum("total", of="n"),
    Min("least", of="n"),
    Max("most", of="n"),
    Sum("uids", of="uid"),
    Sum("crcs", of="crc"),
)
TARGETS = {
    "appended": Append("public.house"),
    "two": (Append("public.house"), Append("public.house_second")),
    "by_batch": Append("public.house"),
    "parts": Append("public.house"),  # by batch, each range a part
    "once": Append("public.house"),  # the view before house_rows
    "keyed": Upsert("public.house", key=("id",)),
    "mirrored": Upsert("public.house", key=("id",)),
    "sourced": Upsert("public.house", key=("id",)),
    "ordered": Upsert("public.house", key=("id",), order_by="rank"),
    "versions": History("public.house", key=("id",)),
    "dated": History("public.house", key=("id",), order_by="rank"),
    "accumulated": Accumulate("public.house", key=("id",), totals=TOTALS),
    "windowed": Windows(
        "public.house",
        window=Hopping("60 seconds", every="30 seconds"),
        key=("id",),
        totals=TOTALS,
        lateness="40 seconds",
        max_late_share=1.0,
    ),
}
EVENT_TIME = EventTime("at", delay="10 seconds")
KEYS_ANYWHERE = frozenset(
    {"ordered", "dated", "accumulated", "windowed"}
)  # targets that do not mind in which partition a key stands


def folder_of(
    home: Path, *, kind: str, records: int, guarantee: Guarantee | None = None, feed: Feed | None = None
) -> PipelineFolder:
    """Returns the pipeline with batches of so many records, and its target, which may have a feed."""
    rank = {"ordered": ", rank int", "dated": ", rank int", "windowed": ", at timestamp"}.get(kind, "")
    fmt: Json | Debezium = Json(
        f"id string, n bigint{rank}, factor int, uid bigint, crc bigint",
        key="id" if kind in {"keyed", "versions"} else None,
    )
    if kind in {"mirrored", "sourced"}:
        changes = Debezium("id bigint, name string, doc string, photo binary", units={"photo": "base64"})
        fmt = replace(changes, order="source", on_truncate="apply") if kind == "sourced" else changes
    limits, guarantee = Limits(records=records), guarantee or PerBatch()
    target = TARGETS[kind]
    if feed is not None:
        target = tuple(replace(one, feed=feed) for one in (target if isinstance(target, tuple) else (target,)))
        target = target if len(target) > 1 else target[0]
    pipeline = Pipeline(
        "house",
        "house.v1",
        fmt,
        target,  # type: ignore[arg-type]
        limits=limits,
        max_reject_share=1.0,
        guarantee=guarantee,
        event_time=EVENT_TIME if kind == "windowed" else None,
    )
    ddl = DDL[kind]
    if isinstance(guarantee, AtLeastOnce):  # it appends a row again after a crash
        ddl = ddl.replace(", primary key (_stream, _offset, _ordinal)", "")
    return PipelineFolder(pipeline, home, None, None, ddl)
