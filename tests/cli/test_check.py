"""Tests that `lockstep check` finds every fault of a definition without running anything."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.cli.pipelines import checking
from lockstep.core.errors import Refusal
from support.scenes.command_line import DEFINITION, TARGET, assert_refused

EXPECTATION = '{"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}, "severity": "critical"}'

ACCUMULATE = 'Accumulate("public.orders", key=("id",), totals=(Sum("total", of="n"),))'


# One record's limits, which `check` shows: those that the definition says, and the defaults.
LIMITS = "; one record: 67108864 bytes, depth 100, 1000000 values, 100 schemas, 10000 headers, 600 seconds (defaults)\n"
SMALL = "  route: process: LOCKSTEP_ENGINE is process; this process reads, decodes and writes\n"


def scheduled(schedule: Any) -> dict[str, str]:
    return {"init": DEFINITION.replace('topic="', f'schedule={schedule!r}, topic="')}


def versions(**more: str) -> dict[str, str]:
    history = DEFINITION.replace("Pipeline, Upsert", "History, Pipeline").replace("Upsert(", "History(")
    options = "".join(f", {name}={value!r}" for name, value in more.items())
    return {"init": history.replace('key=("id",)', f'key=("id",){options}')}


def followed(columns: str) -> dict[str, str]:
    with_feed = DEFINITION.replace("Json, Pipeline", "Feed, Json, Pipeline").replace(
        'key=("id",)', 'key=("id",), feed=Feed()'
    )
    return {"init": with_feed.replace("n int", columns)}


def suite(*expectations: str) -> str:
    return f'{{"name": "orders", "expectations": [{", ".join(expectations)}]}}'


def test_a_sound_definition_is_ok(lockstep):
    lockstep.define(expectations=suite(EXPECTATION))
    said = lockstep("check", "orders")
    assert (said.code, said.out, said.err) == (0, f"orders: ok{LIMITS}{SMALL}", "")


def test_a_pipeline_that_sends_its_rows_needs_no_target_sql(lockstep):
    init = DEFINITION.replace("Pipeline, Upsert", "Append, Pipeline, Send, Topic")
    sends = 'Send(Topic("orders.clean.v1"))'
    folder = lockstep.define(init=init.replace('Upsert("public.orders", key=("id",))', sends))
    (folder / "target.sql").unlink()
    assert lockstep("check", "orders").code == 0

    lockstep.define(init=init.replace('Upsert("public.orders", key=("id",))', f'(Append("public.orders"), {sends})'))
    assert lockstep("check", "orders").code == 0


def test_limits_of_one_record_are_shown_with_the_defaults(lockstep):
    init = DEFINITION.replace("Json, Pipeline", "Json, Pipeline, RecordLimits")
    lockstep.define(init=init.replace('topic="', 'record_limits=RecordLimits(bytes=1000, depth=7), topic="'))

    assert lockstep("check", "orders").out == (
        "orders: ok; one record: 1000 bytes, depth 7, 1000000 values (default), 100 schemas (default), "
        f"10000 headers (default), 600 seconds (default)\n{SMALL}"
    )
    (said,) = lockstep("check", "orders", "--json").document["pipelines"]
    others = {"values": 1_000_000, "schemas": 100, "headers": 10_000, "seconds": 600}
    assert said["record_limits"] == {"bytes": 1000, "depth": 7} | others


def test_a_definition_that_does_not_load_has_no_limits_to_show(lockstep):
    lockstep.define(init=DEFINITION.replace('topic="', 'record_limits=7, topic="'))

    (said,) = lockstep("check", "orders", "--json").document["pipelines"]

    assert (said["ok"], said["record_limits"]) == (False, None)
    assert "record_limits is 7" in said["faults"][0]


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"expectations": '{"expectations": []}'}, "expectations.json: name: must be a text"),
        ({"expectations": '{"name": "x", "expectations": {}}'}, "expectations.json: expectations: must be a list"),
        ({"expectations": suite('"x"')}, "expectations[0]: must be an object with type and kwargs"),
        ({"expectations": suite("{}")}, "expectations[0].type: None is no expectation"),
        (
            {"expectations": suite(EXPECTATION.replace("expect_", "hope_"))},
            "'hope_column_values_to_not_be_null' is no expect",
        ),
        ({"expectations": suite(EXPECTATION.replace('"id"', '"nr"'))}, "[0].kwargs.column: 'nr' is no column (id, n)"),
        (
            {"expectations": suite(EXPECTATION.replace("critical", "grave"))},
            "[0].severity: 'grave' is not one of critical,",
        ),
        (
            {"expectations": suite(EXPECTATION.replace("not_be_null", "not_be_nul"))},
            "to_not_be_nul; did you mean expect_column_values_to_not_be_null?",
        ),
        ({"expectations": suite('{"type": "expect_table", "kwargs": []}')}, "[0].kwargs: must be an object"),
        ({"expectations": suite('{"type": "expect_table", "meta": "x"}')}, "[0].meta: must be an object"),
        (
            {"expectations": suite('{"type": "expect_table", "meta": {"on_violation": "ignore"}}')},
            "[0].meta.on_violation: 'ignore' is not one of refuse, quarantine",
        ),
        (
            {"init": DEFINITION.replace('topic="', 'on_violation="quarantine", topic="')},
            "__init__.py: on_violation: 'quarantine', and there is no expectations.json",
        ),
        (
            {"target": "-- create table public.orders (id text);\n"},
            "target.sql: does not create the target public.orders",
        ),
        ({"target": TARGET.replace("public.orders", "public.orders2")}, "does not create the target public.orders"),
        ({"init": DEFINITION.replace('("id",)', '("nr",)')}, "__init__.py: target.key: 'nr' is no column (id, n)"),
        (versions(order_by="nr"), "__init__.py: target.order_by: 'nr' is no column (id, n)"),
        (
            versions(order_by="id"),
            "target.order_by: 'id' is string: a version begins at a timestamp, date, smallint, int,",
        ),
        (
            {"init": versions()["init"].replace("n int", "valid_from timestamp")},
            "__init__.py: column valid_from: Lockstep fills it in a history; give the record's another name",
        ),
        (
            followed("at int, at_ int"),
            "target.feed: public.orders has columns at and at_, which would both be at_ to readers of the feed",
        ),
        (followed("_change int"), "target.feed: public.orders has a column _change, which is the feed's own"),
        (
            scheduled("every day"),
            "__init__.py: schedule: 'every day' is no cron expression, such as '*/5 * * * *', and",
        ),
        (scheduled("99 * * * *"), "__init__.py: schedule: '99 * * * *' is no cron expression"),
        (scheduled("* * * *"), "schedule: '* * * *' is no cron expression"),
        (scheduled("@fortnightly"), "schedule: '@fortnightly' is no cron expression"),
        (scheduled(""), "schedule: '' is no cron expression"),
        (scheduled("*/0\n* * * *"), r"schedule: '*/0\n* * * *' is no cron expression"),
        (scheduled("9" * 300 + " * * * *"), f"schedule: '{'9' * 100}…' is no cron expression"),
        (scheduled("0 0 31 2 *"), "schedule: '0 0 31 2 *' names no date that ever comes"),
        (scheduled(5), "schedule is 5: not a kind that Lockstep knows"),
    ],
)
def test_a_fault_is_one_line_with_file_and_field(lockstep, files, fault):
    lockstep.define(**files)
    said = lockstep("check", "orders")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert said.err.startswith("orders: include/pipelines/orders/")
    assert fault in said.err


OWN = DEFINITION.replace("Json(", "Custom(").replace(', key="id")', ")").replace("Json,", "Custom, Json,")
DECODER = "def decode(key, value, headers):\n    return None\n"


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({}, "decode.py: missing; it holds decode(key, value, headers)"),
        ({"decode": "def decode(:\n"}, "decode.py:1: syntax: "),
        ({"decode": "1 / 0\n"}, "decode.py: ZeroDivisionError: division by zero"),
        (
            {"decode": DECODER.replace("decode", "decoded")},
            "decode.py: it defines no function decode(key, value, headers)",
        ),
    ],
)
def test_a_decoder_that_cannot_be_used_is_one_line(lockstep, files, fault):
    lockstep.define(init=OWN, **files)
    said = lockstep("check", "orders")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert f"orders: include/pipelines/orders/{fault}" in said.err


def test_a_decoder_that_deletes_where_no_target_can_is_one_line(lockstep):
    vain = OWN.replace('Upsert("public.orders", key=("id",))', 'Append("public.orders")').replace("Upsert", "Append")
    source = "from lockstep import Delete\n\ndef decode(key, value, headers):\n    return Delete({'id': 'a'})\n"
    lockstep.define(init=vain, decode=source)
    said = lockstep("check", "orders")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    why = "decode.py:4: Delete: the target is Append, and only Upsert and History know a row by its key"
    assert f"orders: include/pipelines/orders/{why}" in said.err
    lockstep.define(init=OWN, decode=source)
    assert lockstep("check", "orders").out.startswith("orders: ok")


def test_an_own_decoder_that_loads_is_ok(lockstep):
    lockstep.define(init=OWN, decode=DECODER)
    assert lockstep("check", "orders").out == (f"orders: ok{LIMITS}{SMALL}")


HEARTBEATS = (
    OWN.replace("Custom(", "Debezium(")
    .replace("Custom,", "Debezium,")
    .replace("orders.v1", "__debezium-heartbeat.shop")
)


def test_a_connectors_heartbeats_are_refused_by_their_name(lockstep):
    lockstep.define(init=HEARTBEATS)
    said = lockstep("check", "orders")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert (
        "'__debezium-heartbeat.shop' holds a connector's heartbeats and no rows: name the topic of a table" in said.err
    )


@pytest.mark.parametrize("table", ['"public"."orders"', "PUBLIC.Orders", "public . orders"])
def test_the_target_is_found_however_it_is_written(lockstep, table):
    lockstep.define(target=TARGET.replace("public.orders", table))
    assert lockstep("check", "orders").code == 0


def test_a_sum_of_floats_is_a_fault_with_its_reason(lockstep):
    init = DEFINITION.replace("Upsert", "Accumulate, Sum", 1).replace("n int", "n double")
    lockstep.define(init=init.replace('Upsert("public.orders", key=("id",))', ACCUMULATE))
    said = lockstep("check", "orders")
    assert said.code == 1
    assert "__init__.py: target.totals: Sum('total'): n is double, and a sum of floats depends on the order" in said.err


def test_a_missing_target_is_a_fault(lockstep):
    (lockstep.define() / "target.sql").unlink()
    assert "target.sql: missing; it creates public.orders" in lockstep("check").err


def test_all_pipelines_are_looked_at_and_each_fault_is_told(lockstep):
    lockstep.define()
    lockstep.define("broken", init="x = 1")
    faulty = DEFINITION.replace('name="orders"', 'name="faulty"').replace("public.orders", "public.faulty")
    lockstep.define("faulty", init=faulty, expectations="{}", target="")
    said = lockstep("check", "--json")
    told = {each["pipeline"]: (each["ok"], len(each["faults"])) for each in said.document["pipelines"]}
    assert (said.code, said.document["ok"]) == (1, False)
    assert told == {"broken": (False, 1), "faulty": (False, 3), "orders": (True, 0)}


def test_an_unknown_pipeline_is_refused(lockstep):
    lockstep.define()
    said = lockstep("check", "nope")
    assert said.code == 1
    assert "no pipeline 'nope'; there are: orders" in said.err


def test_what_is_wrong_with_the_machine_is_no_fault_of_the_definition(lockstep, monkeypatch):
    def no_java(_):
        raise Refusal("no Java here", next_command="install one")

    monkeypatch.setattr(checking, "trial_engine", no_java)
    lockstep.define()
    assert_refused(lockstep("check"), "no Java here  Next: install one")


TRANSFORMS = [
    ("def transform(records):\n    return records.drop('_offset')\n", "drops _offset"),
    ("def transform(records):\n    return records.select('_stream', '_offset', 'id', 'nr')\n", "transform"),
    ("def transform(records):\n    return records\n", None),
    (
        "from datetime import datetime\n\n\ndef transform(records):\n    datetime.now()\n    return records\n",
        "transform.py:5: transform: datetime.now() is another at every attempt; use run.planned_at",
    ),
    (
        "def transform(records):\n    return records.where('now() > timestamp_seconds(n)')\n",
        "transform.py: transform: now() is another at every attempt; use run.planned_at",
    ),
    ("def lines(records):\n    return records\n", "transform.py has no function transform"),
]


@pytest.mark.server
@pytest.mark.parametrize(("transform", "fault"), TRANSFORMS, ids=range(len(TRANSFORMS)))
def test_a_transform_is_proved_on_an_empty_frame(lockstep, transform, fault):
    lockstep.define(transform=transform)
    said = lockstep("check", "orders")
    assert (said.code, "Traceback" in said.err) == (1 if fault else 0, False)
    assert (fault or "") in said.err


@pytest.mark.server
def test_a_definition_may_say_that_its_transform_is_not_repeatable(lockstep):
    clock = "import time\n\n\ndef transform(records):\n    time.time()\n    return records\n"
    lockstep.define(transform=clock, init=DEFINITION.replace('name="orders"', 'nondeterministic=True, name="orders"'))
    assert lockstep("check", "orders").code == 0


@pytest.mark.server
def test_a_function_without_a_transform_py_is_a_fault(lockstep):
    lockstep.define(init=DEFINITION.replace('("id",))', '("id",), transform="heads")'))
    said = "orders: there is no transform.py, and a target names its function heads\n"
    assert lockstep("check", "orders").err == said


def test_each_of_several_targets_is_looked_at(lockstep):
    more = 'target=(Append("public.seen"), Upsert("public.orders", key=("nr",)))'
    several = DEFINITION.replace('target=Upsert("public.orders", key=("id",))', more)
    lockstep.define(init=several.replace("import Json", "import Append, Json"))
    said = lockstep("check", "orders").err
    assert "target.key: 'nr' is no column (id, n)" in said
    assert "does not create the target public.seen" in said
