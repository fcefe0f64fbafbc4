"""Tests totals through Spark and Kafka: exact after a corrected transform and a full replay.

They are proved from the log.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from lockstep.core.changes.person import Person
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.planning.bounds import AtOffsets
from lockstep.core.planning.decisions import Caller
from lockstep.core.states import Lane
from lockstep.steps.batch.run import until_idle
from lockstep.steps.proof.verify import verify
from lockstep.steps.requests import requests

COLUMNS = "customer string, amount decimal(12,2), status string, at timestamp"
TARGET = """Accumulate("TABLE", key=("customer",), totals=(
    Count("records"), Count("amounts", of="amount"), Sum("amount", of="amount"), Min("least", of="amount"),
    Max("last_at", of="at")))"""
DDL = """customer text primary key, records bigint, amounts bigint, amount numeric, least numeric(12,2),
    last_at timestamptz"""
ONLY_PAID = "from pyspark.sql import functions as F\ndef transform(r):\n    return r.where(F.col('status') == 'paid')\n"
TWICE = ONLY_PAID.replace("return r", "return r.withColumn('amount', (F.col('amount') * 2).cast('decimal(12,2)'))")


def value(i: int) -> dict[str, Any]:
    paid = "paid" if i % 3 else "placed"
    amount = None if i % 10 == 9 else f"{i}.{i % 100:02d}"
    return {
        "customer": f"c{i % 7}",
        "amount": amount,
        "status": paid,
        "at": f"2026-01-01T00:{i // 60:02d}:{i % 60:02d}Z",
    }


VALUES = [value(i) for i in range(400)]


@pytest.fixture
def source(topic, produce):
    """Writes every customer's records to all of three partitions."""
    name = topic(partitions=3)
    produce(name, [(f"k{i}", json.dumps(value)) for i, value in enumerate(VALUES)])
    produce(name, [("bad", b"{no json")], partition=1)
    return name


def recomputed(values: list[dict], factor: int = 1) -> list[tuple]:
    """Returns the result of a full recomputation, in exact numbers."""
    told = []
    for customer in sorted({value["customer"] for value in values}):
        mine = [value for value in values if value["customer"] == customer]
        amounts = [Decimal(value["amount"]) * factor for value in mine if value["amount"] is not None]
        last_at = datetime.fromisoformat(max(value["at"] for value in mine)).astimezone(UTC)
        told.append((customer, len(mine), len(amounts), sum(amounts), min(amounts), last_at))
    return told


def totals(loaded) -> list[tuple]:
    columns = "customer, records, amounts, amount, least, last_at"
    found = loaded.ask(f"select {columns} from public.{loaded.name} order by 1")
    return [(*row[:-1], row[-1].astimezone(UTC)) for row in found]


def replay(loaded) -> None:
    at, engine, folder = loaded.parts()
    wanted = requests.NewRequest(Lane.REPLAY, AtOffsets(dict.fromkeys(range(3), 0)), None)
    asked = requests.open_request(
        at.conn, at.broker, folder, wanted, Person("me", "the transform is mended"), datetime.now(UTC)
    )
    reports = list(until_idle(at, engine, folder, Caller("test"), 1, request_id=asked.request_id))
    assert any(report.went_on for report in reports)


def faults(loaded, *, deep: bool) -> list[str]:
    at, _, folder = loaded.parts()
    return [f"{check.name}: {check.detail}" for check in verify(at.conn, at.broker, folder, deep=deep) if not check.ok]


@pytest.mark.long
def test_after_a_corrected_transform_and_a_replay_of_everything_totals_are_those_of_a_full_recomputation(
    pipeline, source, tmp_path
):
    loaded = pipeline(source, COLUMNS, DDL, target=TARGET, transform=TWICE, limits="Limits(records=150)")
    loaded.run_until_idle()
    paid = [value for value in VALUES if value["status"] == "paid"]
    assert totals(loaded) == recomputed(paid, 2)
    assert faults(loaded, deep=False) == []

    (tmp_path / "pipelines" / loaded.name / "transform.py").write_text(ONLY_PAID)
    replay(loaded)

    assert totals(loaded) == recomputed(paid)
    assert faults(loaded, deep=True) == []


def test_without_a_transform_the_totals_are_proved_from_kafka_and_a_changed_one_is_found(pipeline, source):
    loaded = pipeline(source, COLUMNS, DDL, target=TARGET, limits="Limits(records=150)")
    loaded.run_until_idle()
    assert totals(loaded) == recomputed(VALUES)
    assert faults(loaded, deep=True) == []

    loaded.ask(f"update public.{loaded.name} set amount = amount + 0.01 where customer = 'c3' returning 1")
    (found,) = faults(loaded, deep=False)
    assert "totals are what the contributions add up to" in found
    assert '["c3"]' in found

    loaded.ask("""update lockstep.contribution set totals = jsonb_set(totals, '{amount}', '0.01')
        where key = '["c3"]' and "offset" = (select max("offset") from lockstep.contribution) returning 1""")
    loaded.ask("""set role lockstep_owner; alter table lockstep.contribution disable trigger folded_whole;
        update lockstep.contribution set records = records + 1 where key = '["c4"]';
        alter table lockstep.contribution enable trigger folded_whole; select 1""")
    assert any("each key's totals are those of its records" in fault for fault in faults(loaded, deep=True))


REFUSED = [
    (DDL, COLUMNS.replace("decimal(12,2)", "double"), BadDefinition, "depends on the order of its terms"),
    (DDL.replace("amount numeric,", "amount numeric(12,2),"), COLUMNS, Refusal, "only numeric holds it exactly"),
    (DDL.replace("records bigint", "records int"), COLUMNS, Refusal, "only bigint holds it exactly"),
    (DDL.replace("least numeric(12,2)", "least numeric(12,1)"), COLUMNS, Refusal, r"only numeric\(12,2\) holds"),
    (DDL.replace("last_at timestamptz", "last_at text"), COLUMNS, Refusal, "only timestamptz holds it exactly"),
    (DDL.replace("customer text primary key", "customer text"), COLUMNS, Refusal, r"no unique index on \(customer\)"),
    (DDL + ", region text not null", COLUMNS, Refusal, "region is not null"),
    (DDL.replace("last_at timestamptz", "at timestamptz"), COLUMNS, Refusal, "has no column last_at"),
]


@pytest.mark.parametrize(("ddl", "columns", "error", "message"), REFUSED)
def test_a_target_that_could_not_hold_the_totals_exactly_is_refused_before_anything_is_read(
    pipeline, source, ddl, columns, error, message
):
    if "primary key" not in ddl:
        ddl += ", primary key (_stream, _offset, _ordinal)"
    loaded = pipeline(source, columns, ddl, target=TARGET)
    with pytest.raises(error, match=message):
        loaded.run()
