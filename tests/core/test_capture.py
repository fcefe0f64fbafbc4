"""Tests that pipelines of change records refuse what could not be a mirror of the source's table."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

import lockstep.core.pipeline.definition
from lockstep import Accumulate, Append, Avro, Count, Debezium, History, Idempotent, PerPartition, Pipeline, Upsert
from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.columns import Column
from lockstep.core.pipeline.formats import registered_of
from lockstep.core.pipeline.recorded import pipeline_of_document
from lockstep.core.planning.blocked import changed_definition
from lockstep.core.planning.routes import may_end_its_reader

ROOT = Path(__file__).parents[2]
SCHEMA = "id bigint, name string, placed_at timestamp"
SOURCE = Debezium(SCHEMA, order="source")
MIRROR = Upsert("public.orders", key=("id",))


def mirror(**more: Any) -> Pipeline:
    parts: dict[str, Any] = {"format": Debezium(SCHEMA), "target": MIRROR, "topic": "shop.public.orders"}
    return Pipeline(name="orders", **(parts | more))


@pytest.mark.parametrize(
    ("nonsense", "named"),
    [
        (lambda: Debezium("id"), "id"),
        (lambda: Debezium(SCHEMA, key="id"), "format.key is 'id': it must be a tuple"),  # type: ignore[arg-type]
        (lambda: Debezium(SCHEMA, key=()), r"format.key is \(\): it must be a tuple"),
        (lambda: Debezium(SCHEMA, key=("no",)), "format.key: 'no' is not a column of the schema"),
        (lambda: Debezium(SCHEMA, key=(["id"],)), r"format.key: \['id'\] is not a column"),  # type: ignore[arg-type]
        (lambda: Debezium(SCHEMA, key=("id", "id")), "format.key: 'id' is there twice"),
        (lambda: Debezium(SCHEMA, units="micros"), "format.units is 'micros': it must be a dict"),  # type: ignore[arg-type]
        (lambda: Debezium(SCHEMA, units={"no": "micros"}), "format.units: 'no' is not a column"),
        (lambda: Debezium(SCHEMA, units={"id": "micros"}), "format.units: column 'id' is bigint, which needs no unit"),
        (lambda: Debezium(SCHEMA, units={"placed_at": "days"}), "'placed_at' is 'days': a timestamp is written in millis"),
        (lambda: Debezium(SCHEMA, placeholder=""), "format.placeholder is ''"),
        (lambda: Debezium(SCHEMA, placeholder="hex:"), "format.placeholder is 'hex:': hexadecimal digits, two a byte"),
        (lambda: Debezium(SCHEMA, placeholder="hex:123"), "format.placeholder is 'hex:123': hexadecimal digits"),
        (lambda: Debezium(SCHEMA, placeholder="hex:12 34"), "format.placeholder is 'hex:12 34': hexadecimal digits"),
        (lambda: Debezium(SCHEMA, wire=Avro(SCHEMA)), r"format.wire is Avro\(schema="),
        (lambda: Debezium(SCHEMA, wire="avro"), "format.wire is 'avro': it must be Avro"),  # type: ignore[arg-type]
        (lambda: mirror(topic="__debezium-heartbeat.shop"), "holds a connector's heartbeats and no rows"),
        (lambda: mirror(topic="schema-changes.shop"), "holds a connector's schema changes and no rows"),
        (lambda: mirror(topic="schema-changes"), "holds a connector's schema changes and no rows"),
        (lambda: mirror(topic="schemahistory.shop"), "holds a connector's schema changes and no rows"),
        (lambda: mirror(topic="schema-history.shop.eu"), "holds a connector's schema changes and no rows"),
        (lambda: mirror(topic="shop.schemahistory"), "holds a connector's schema changes and no rows"),
        (lambda: mirror(topic="shop.schema-changes"), "holds a connector's schema changes and no rows"),
        (
            lambda: mirror(target=Accumulate("public.orders", ("id",), (Count("n"),))),
            "Accumulate cannot follow a source that updates and deletes its rows",
        ),
        (lambda: mirror(target=(MIRROR, Append("public.log"))), "Append cannot follow"),
        (lambda: mirror(target=Upsert("public.orders", key=("name",))), r"public.orders is \('name',\), and Debezium deletes"),
        (lambda: mirror(target=Upsert("public.orders", key=("id",), order_by="placed_at")), "a deletion has no such value"),
        (lambda: Debezium(SCHEMA, order="lsn"), "format.order is 'lsn': it must be log or source"),
        (lambda: Debezium(SCHEMA, on_truncate="drop"), "format.on_truncate is 'drop': it must be refuse or apply"),
        (lambda: mirror(format=Debezium(f"{SCHEMA}, _source_order binary")), "column '_source_order' is reserved"),
        (lambda: mirror(target=Upsert("public.orders", ("id",), order_by="_source_order")), "a deletion has no such value"),
        (lambda: mirror(format=SOURCE, target=Upsert("public.orders", ("id",), order_by="placed_at")), "has no such value"),
        (
            lambda: mirror(format=SOURCE, target=Upsert("public.orders", ("id",), shared_with=("other",))),
            "target.shared_with of public.orders: places in the logs of two sources say nothing about each other",
        ),
        (lambda: mirror(format=SOURCE, target=History("public.orders", key=("id",))), "History keeps versions in the order"),
        (lambda: mirror(guarantee=Idempotent()), r"guarantee: Idempotent\(\) brings rows to another place"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_by_the_name_of_its_field(nonsense, named):
    with pytest.raises(BadDefinition, match=named):
        nonsense()


def test_a_truncation_is_applied_in_the_order_of_the_source_alone():
    assert Debezium(SCHEMA, order="source", on_truncate="apply").on_truncate == "apply"
    with pytest.raises(BadDefinition) as no:
        Debezium(SCHEMA, on_truncate="apply")
    assert str(no.value) == (
        "format.on_truncate is 'apply': in the order of the topic nothing says which rows of other partitions are older than a "
        "truncation: say order='source' too, or on_truncate='refuse'"
    )


def test_an_append_cannot_follow_a_source():
    with pytest.raises(
        BadDefinition, match=r"updates and deletes its rows: say Upsert\('public.orders', key=\('id',\)\)"
    ):
        mirror(target=Append("public.orders"))


@pytest.mark.parametrize(
    "topic",
    [
        "shop.public.orders",
        "orders",
        "shop.public.schema_versions",
        "heartbeats",
        "shop.public.flyway_schema_history",
        "app.dbo.schema_changes",
        "shop.public.price_schema_changes_log",
        "shop.public.schemahistory",
        "flyway_schema_history",
        "shop.schema_changes",
        "shop.__debezium-heartbeat",
    ],
)
def test_a_tables_topic_may_have_any_name(topic):
    assert mirror(topic=topic, guarantee=PerPartition()).topic == topic


def test_every_mirror_takes_deletions():
    two = (MIRROR, Upsert("public.open_orders", key=("id",), transform="open_orders"))
    assert mirror(target=two).tombstone_targets == two
    wide = mirror(format=Debezium(SCHEMA, key=("name", "id")), target=Upsert("public.orders", key=("name", "id")))
    assert wide.tombstone_targets == wide.targets


def test_the_ledgers_document_is_the_definition():
    whole = mirror(format=Debezium(SCHEMA, units={"placed_at": "micros"}, placeholder="-"))
    document = json.loads(json.dumps(whole.document()))
    assert document["format"] == {
        "kind": "Debezium",
        "schema": SCHEMA,
        "key": ["id"],
        "units": {"placed_at": "micros"},
        "placeholder": "-",
    }
    assert pipeline_of_document(document) == whole
    assert mirror().document()["format"].keys() == {"kind", "schema", "key"}


def test_the_sources_order_is_a_column_of_the_target_and_deletions_have_it():
    whole = mirror(format=SOURCE)
    assert whole.columns[-1] == Column("_source_order", "binary")
    assert [target.order_by for target in whole.targets] == ["_source_order"]
    assert whole.tombstone_targets == whole.targets
    document = json.loads(json.dumps(whole.document()))
    assert document["format"] == {"kind": "Debezium", "schema": SCHEMA, "key": ["id"], "order": "source"}
    assert pipeline_of_document(document) == whole


@pytest.mark.parametrize("formats", [(SOURCE, Debezium(SCHEMA)), (Debezium(SCHEMA), SOURCE)])
def test_the_order_of_changes_stays_for_good(formats):
    was, now = (mirror(format=each) for each in formats)
    assert changed_definition(was, [was.document()]) is None
    blocked = changed_definition(now, [was.document()])
    assert blocked is not None
    assert "a pipeline keeps its order of changes for good" in blocked.reason


def test_records_may_come_in_avro():
    whole = mirror(format=Debezium(SCHEMA, wire=Avro(subject="orders-value")))
    document = json.loads(json.dumps(whole.document()))
    assert document["format"]["wire"] == {"schema": "", "key": None, "subject": "orders-value", "rest": None}
    assert pipeline_of_document(document) == whole
    assert registered_of(whole.format) == Avro(subject="orders-value")
    assert registered_of(mirror().format) is None


@pytest.mark.parametrize(
    ("page", "block"),
    [
        ("docs/formats.md", r"^## Debezium\n\n((?:    .*\n)+)"),
        ("docs/cookbook.md", r"^## Mirror a table that Debezium captures\n\n```python\n((?:.*\n)+?)```"),
    ],
)
def test_the_pages_pipelines_are_what_they_say(page, block):
    (source,) = re.findall(block, (ROOT / page).read_text(), re.MULTILINE)
    made = eval(textwrap.dedent(source), vars(lockstep.core.pipeline.definition).copy())  # noqa: S307 - our own page
    assert (made.name, made.topic, made.targets) == (
        "shop_orders",
        "shop.public.orders",
        (Upsert("public.shop_orders", key=("id",)),),
    )
    assert made.format.columns[0] == Column("id", "bigint")


def test_the_cookbooks_mirror_in_the_sources_order_is_what_it_says():
    block = r"^A connector that starts again(?:.*\n)+?```python\n((?:.*\n)+?)```"
    (source,) = re.findall(block, (ROOT / "docs/cookbook.md").read_text(), re.MULTILINE)
    made = eval(source, vars(lockstep.core.pipeline.definition).copy())  # noqa: S307 - our own page
    assert made.targets == (Upsert("public.shop_orders", key=("id",), order_by="_source_order"),)
    assert [column.name for column in made.columns] == ["id", "customer", "notes", "_source_order"]


def test_its_records_may_end_their_reader():
    assert mirror().columns == (Column("id", "bigint"), Column("name", "string"), Column("placed_at", "timestamp"))
    assert may_end_its_reader(mirror()) == "a record of Debezium may end its reader"
