"""Defines the house's one pipeline, with each kind of target, over a topic that is only remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.definition import (
    Accumulate,
    Append,
    AtLeastOnce,
    Count,
    Json,
    Limits,
    Max,
    Min,
    PerBatch,
    Pipeline,
    Sum,
    Upsert,
)
from lockstep.core.folder import PipelineFolder

if TYPE_CHECKING:
    from pathlib import Path

    from lockstep.core.guarantees import Guarantee

ORIGIN = "_stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null"
SEAL = "uid bigint, crc bigint"  # a record's own id and the checksum of its content
COLUMNS = f"id text {{key}}, n bigint, factor int, {ORIGIN}, {SEAL}"
BY_BATCH = (
    f"create table public.house ({COLUMNS.format(key='')}, primary key (_stream, _offset, _ordinal, _batch)) "
    "partition by list (_batch);"
)
KEYED = f"create table public.house ({COLUMNS.format(key='primary key')});"
DDL = {
    "appended": f"create table public.house ({COLUMNS.format(key='')}, primary key (_stream, _offset, _ordinal));",
    "two": "".join(
        f"create table public.{name} ({COLUMNS.format(key='')}, primary key (_stream, _offset, _ordinal));"
        for name in ("house", "house_second")
    ),
    "by_batch": BY_BATCH,
    "keyed": KEYED,
    "ordered": KEYED.replace("n bigint", "n bigint, rank int"),
    "accumulated": "create table public.house (id text primary key, records bigint, numbers bigint, total numeric, "
    f"least bigint, most bigint, {ORIGIN}, uids numeric, crcs numeric);",
}
TARGETS = {
    "appended": Append("public.house"),
    "two": (Append("public.house"), Append("public.house_second")),
    "by_batch": Append("public.house"),
    "keyed": Upsert("public.house", key=("id",)),
    "ordered": Upsert("public.house", key=("id",), order_by="rank"),
    "accumulated": Accumulate(
        "public.house",
        key=("id",),
        totals=(
            Count("records"),
            Count("numbers", of="n"),
            Sum("total", of="n"),
            Min("least", of="n"),
            Max("most", of="n"),
            Sum("uids", of="uid"),
            Sum("crcs", of="crc"),
        ),
    ),
}
KEYS_ANYWHERE = frozenset({"ordered", "accumulated"})  # targets that do not mind in which partition a key stands


def folder_of(home: Path, *, kind: str, records: int, guarantee: Guarantee | None = None) -> PipelineFolder:
    """Returns the pipeline with batches of so many records, and its target."""
    rank = ", rank int" if kind == "ordered" else ""
    fmt = Json(f"id string, n bigint{rank}, factor int, uid bigint, crc bigint", key="id" if kind == "keyed" else None)
    limits, guarantee = Limits(records=records), guarantee or PerBatch()
    pipeline = Pipeline(
        "house", "house.v1", fmt, TARGETS[kind], limits=limits, max_reject_share=1.0, guarantee=guarantee
    )
    ddl = DDL[kind]
    if isinstance(guarantee, AtLeastOnce):  # it appends a row again after a crash
        ddl = ddl.replace(", primary key (_stream, _offset, _ordinal)", "")
    return PipelineFolder(pipeline, home, None, None, ddl)
