"""Provides a network that misbehaves: a proxy before Postgres, and one before a separate broker."""

from __future__ import annotations

import itertools
import json
import os
import re
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from psycopg2.extensions import parse_dsn

from lockstep.dev.servers import kafka as dev_kafka
from lockstep.dev.servers import ports
from support.fakes.proxy import Proxy
from support.scenes.here import Here
from support.servers.servers import make_topic

NUMBERS = itertools.count()


@pytest.fixture
def proxy(drill):
    """Yields a proxy before the drill's Postgres."""
    made = Proxy(int(parse_dsn(drill.dsn)["port"]))
    yield made
    made.close()


@pytest.fixture
def far(drill, proxy):
    """Yields a user's actions on the drill's pipeline, with the proxy between the user and Postgres."""
    made = Here(replace(drill, dsn=re.sub(r":\d+/", f":{proxy.port}/", drill.dsn)))
    yield made
    made.at.close()


@pytest.fixture(scope="module")
def far_kafka(tmp_path_factory):
    """Yields a broker that gives its clients the proxy's address as its own: (bootstrap, proxy, home, port)."""
    home = tmp_path_factory.mktemp("far")
    port = ports.choose(home)
    proxy = Proxy(port)
    settings = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
    dev_kafka.start(home, port, more=settings)
    yield FarKafka(home, port, proxy, settings)
    proxy.pass_on()
    if broker := dev_kafka.running(home):
        dev_kafka.kill(broker)
    proxy.close()


class FarKafka:
    """A broker behind a proxy. It may be killed and started again."""

    def __init__(self, home, port: int, proxy: Proxy, settings: dict[str, str]) -> None:
        self.home, self.port, self.proxy, self.settings = home, port, proxy, settings
        self.bootstrap = f"127.0.0.1:{proxy.port}"

    def kill(self) -> None:
        dev_kafka.kill(dev_kafka.running(self.home))

    def start(self) -> None:
        dev_kafka.start(self.home, self.port, more=self.settings)

    def topic(self, records: int, size: int) -> str:
        """Makes a topic of one partition with so many records of at least so many bytes."""
        name = f"far-{os.getpid()}-{next(NUMBERS)}"
        make_topic(self.bootstrap, name, 1)
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        for i in range(records):
            producer.produce(name, json.dumps({"id": f"r{i}-{'x' * size}", "n": i}), f"k{i}")
        assert producer.flush(20) == 0
        return name


@pytest.fixture
def far_drill(drill, far_kafka):
    """Returns `far_drill(records, size)`: the drill over a topic behind the proxy, with bigger batches."""

    def make(records: int, size: int = 1) -> Here:
        far_kafka.proxy.pass_on()
        topic = far_kafka.topic(records, size)
        here = Here(replace(drill, kafka=far_kafka.bootstrap, topic=topic))
        here.rewrite(drill.topic, topic)
        here.rewrite("records=200", f"records={records}")
        return here

    return make
