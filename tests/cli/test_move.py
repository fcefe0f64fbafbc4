"""`lockstep move` lets a pipeline go on in a copy of its topic. Only Spark is left out."""

from __future__ import annotations

import json
import re
import threading

from confluent_kafka import Producer

from support.scenes.mirrored import Mirror
from support.scenes.odd_logs import offsets_in, until

WHY = ("--reason", "the cluster is renewed")
ROWS = "select n from public.drill order by n"


class Sending(threading.Thread):
    """A producer of transactions of five records. It sends to `topic`, which may change while it runs."""

    def __init__(self, kafka: str, topic: str, first: int) -> None:
        super().__init__(daemon=True)
        self.topic, self.next, self.over = topic, first, threading.Event()
        self.producer = Producer({"bootstrap.servers": kafka, "transactional.id": f"of {topic}", "linger.ms": 1})
        self.producer.init_transactions(30)
        self.start()

    def run(self) -> None:
        while not self.over.wait(0.01):
            self.producer.begin_transaction()
            for n in range(self.next, self.next + 5):
                key, value = record(n)
                self.producer.produce(self.topic, value, key, partition=n % 3, headers=[("n", str(n).encode())])
            self.producer.commit_transaction(30)
            self.next += 5

    def stop(self) -> int:
        self.over.set()
        self.join(30)
        return self.next


def record(n: int) -> tuple[str, str]:
    return f"k{n}", json.dumps({"id": f"r{n}", "n": n})


def shown(lockstep, copy: str, *more: str) -> str:
    """Returns the digest of a preview."""
    said = lockstep("move", "drill", "--to-topic", copy, *more)
    assert (said.code, said.err) == (0, ""), said
    return re.findall(r"^digest ([0-9a-f]{16}); nothing was changed$", said.out, re.MULTILINE)[0]


def test_a_pipeline_moves_under_a_running_producer_and_each_record_is_there_once(here, lockstep, produce, topic):
    old, copy, kafka = here.drill.topic, topic(partitions=3), here.drill.kafka
    for p in range(3):
        produce(old, [(f"a{p}", "aborted")], p, end="abort")
    sending = Sending(kafka, old, 150)
    mirror = Mirror(kafka, old, copy, 3)
    for _ in range(3):
        here.run()

    preview = lockstep("move", "drill", "--to-topic", copy, "--preview", "--json").document
    assert all(each["matched"] >= 20 for each in preview["moved"]), preview
    digest = shown(lockstep, copy)
    assert digest == preview["digest"]
    done = lockstep("move", "drill", "--to-topic", copy, "--apply", digest, *WHY, "--json").document
    assert done["changed"]
    print(done)
    blocked = lockstep("run", "drill")
    print(blocked)
    here.rewrite(old, copy)
    here.run()
    sending.topic = copy
    until(lambda: sending.next > 300, "nothing is sent")
    last = sending.stop()
    old_records = sum(len(offsets_in(kafka, old, p)) for p in range(3))
    until(lambda: mirror.copied >= old_records, "the mirror is behind")
    mirror.stop()
    here.drain()
    assert here.drill.ask(ROWS) == [(n,) for n in range(last)]
    deep = lockstep("verify", "drill", "--deep")
    print(deep.out, deep.err)
    print(lockstep("status", "drill").out)
    print(lockstep("holes", "drill").out)
    print(lockstep("lineage", "drill", "--partition", "0", "--offset", "3"))
    print(lockstep("lineage", "drill", "--partition", "0", "--offset", "3", "--topic", old))
    assert here.drill.violations() == []
    assert deep.code == 0
