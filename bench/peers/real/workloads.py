"""Lists the variants of the second workload: the records of each, its columns, and the rows that are expected."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from peers.real.events import BAD, BAD_IN, CLEAN, DDL, PAIRS, SCHEMA, WEIGHTS, events, expect
from peers.workload import Output, Workload, names_of

PRODUCED = 'select * from produced."{topic}"'
COMPARED = (*names_of(SCHEMA), "_offset")
NAME = "real records, 25 columns"
TOTALS = """select customer, count(*) as orders, sum(amount)::numeric(20,2) as amount, max(occurred_at) as latest
from produced."{topic}" group by customer"""
FILTERED = """select id, customer, amount, occurred_at, upper(user_agent) as user_agent, left(title, 12) as title, _offset
from produced."{topic}" where paid"""
UNMASKED = ", ".join(name for name in COMPARED if name != "ip")
MASKED = f"""select {UNMASKED}, regexp_replace(ip, '[0-9]+$', '0') as ip from produced."{{topic}}" as t"""
SOME = "id text not null, customer text not null, amount numeric(12,2) not null"


def _workload(variant: str, topic: str = CLEAN, output: Output | None = None) -> Workload:
    return Workload(
        name=f"{NAME}, {variant}",
        topic=topic,
        schema=SCHEMA,
        outputs=(output or Output(DDL, COMPARED, "id", PRODUCED),),
        records=partial(events, topic),
        expect=expect,
        weights=WEIGHTS,
        lines="peers.real.lines",
    )


def _with_text(name: str, expected: str) -> Output:
    """Returns the table with one column more, of text."""
    return Output(
        f"{DDL}, {name} text", (*COMPARED, name), "id", f'select *, {expected} as {name} from produced."{{topic}}"'
    )


def _transformed(variant: str, *outputs: Output) -> Workload:
    file = Path(__file__).with_name("transforms.py")
    return replace(_workload(variant), outputs=outputs, transforms=str(file))


def _made(transform: str, ddl: str, expected: str, *, by: str = "id", suffix: str = "") -> Output:
    """Returns the table of a transform, whose columns are compared in the order of its statement."""
    names = names_of(ddl)
    return Output(
        ddl, (*names, *(("_offset",) if by == "id" else ())), by, expected, suffix=suffix, transform=transform
    )


CLEAN_RECORDS = _workload("clean")
BAD_RECORDS = replace(
    _workload("1 % bad", BAD, Output(DDL, COMPARED, "id", f"{PRODUCED} where not is_bad")), bad_in=BAD_IN
)
ESCAPED_PAIRS = _workload("escaped pairs", PAIRS)
# The nested object as the text of one column more, and every field that the schema does not name as another.
NESTED_TEXT = replace(
    _workload("nested object as text", output=Output(f"{DDL}, context text", (*COMPARED, "context"), "id", PRODUCED)),
    schema=f"{SCHEMA}, context string",
)
REST = replace(
    _workload("rest", output=_with_text("others", """'{{"context":' || context || '}}'""")), json='rest="others"'
)
TRANSFORMED = {
    "filter": _transformed(
        "filter and projection",
        _made("filtered", f"{SOME}, occurred_at timestamptz not null, user_agent text, title text", FILTERED),
    ),
    "udf": _transformed("a UDF over Arrow", Output(DDL, COMPARED, "id", MASKED, transform="masked")),
    "aggregate": _transformed(
        "an aggregation",
        _made(
            "totals",
            "customer text not null, orders int8 not null, amount numeric(20,2) not null, latest timestamptz not null",
            TOTALS,
            by="customer",
        ),
    ),
    "two targets": _transformed(
        "two targets",
        _made(
            "paid_orders",
            f"{SOME}, price numeric(18,4), occurred_at timestamptz not null, note text",
            f"{PRODUCED} where paid",
        ),
        _made("open_orders", f"{SOME}, delivered_on date, city text", f"{PRODUCED} where not paid", suffix="_open"),
    ),
}
