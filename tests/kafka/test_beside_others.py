"""A topic has other readers, too: a consumer group of another program and a second pipeline. None disturbs another."""

from __future__ import annotations

from contextlib import closing

from confluent_kafka import Consumer

from lockstep.adapters.folders import load
from lockstep.core.planning.decisions import Caller
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import run
from support.fakes.plain_engine import PlainEngine
from support.oracles.checker import check
from support.scenes.drill import DEFINITION, TARGET

RECORDS = 150  # of the drill


def read_on(consumer: Consumer, number: int) -> list[str]:
    """Reads so many records more, and commits the group's offsets."""
    found = consumer.consume(number, 30.0)
    consumer.commit(asynchronous=False)
    return [message.key().decode() + str(message.partition()) + str(message.offset()) for message in found]


def test_a_consumer_group_and_a_second_pipeline_read_the_same_topic_and_each_has_all_of_it(here):
    drill = here.drill
    twin = drill.home / "twin"
    twin.mkdir()
    (twin / "__init__.py").write_text(
        DEFINITION.format(topic=drill.topic).replace('name="drill"', 'name="twin"').replace(".drill", ".twin")
    )
    (twin / "target.sql").write_text(TARGET.replace(".drill", ".twin"))
    migrate_target(here.at.conn, load("twin"))
    settings = {"group.id": f"others-{drill.topic}", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with closing(Consumer({"bootstrap.servers": drill.kafka} | settings)) as others:
        others.subscribe([drill.topic])
        first = read_on(others, 60)

        here.drain()
        while run(here.at, PlainEngine(load("twin"), drill.kafka, drill.dsn), load("twin"), Caller("me")).went_on:
            pass
        rest = read_on(others, RECORDS - 60)
        assert others.consume(1, 1.0) == [], "and no more"

    assert (len(first), len(rest), len({*first, *rest})) == (60, 90, RECORDS)
    for name in ("drill", "twin"):
        assert check(drill.dsn, drill.kafka, name, table=f"public.{name}", rest=True) == []
        assert drill.ask(f"select count(*)::int from public.{name}") == [(RECORDS,)]
