"""Leads the drill to several topics, and runs it with the driver's own reader."""

from __future__ import annotations

import json
from typing import Any

from lockstep.adapters.folders import load
from lockstep.core.planning.decisions import Caller
from lockstep.engine.chosen import engine_of
from lockstep.steps.batch.run import run
from lockstep.steps.changes.retire import retire
from lockstep.steps.proof.verify import verify
from support.engines import IN_PROCESS
from support.scenes.here import ME, Here
from support.scenes.odd_logs import admin, until
from support.servers.servers import make_topic


class Several:
    """The drill over several topics, `base.eu` and `base.us` at first. Records are read by the driver's own reader."""

    def __init__(self, here: Here, produce: Any, base: str) -> None:
        self.here, self.base, self.produce = here, base, produce
        self.kafka = here.drill.kafka
        self.sent: list[tuple[str, str, int]] = []
        self._topic = f'"{here.drill.topic}"'
        here.rewrite("import Append,", "import Append, Topics, Upsert,")

    def name(self, end: str) -> str:
        return f"{self.base}.{end}"

    def say(self, topic: str, old: str = "", new: str = "") -> None:
        """Lets the definition name other topics, or replaces another part of it."""
        self.here.rewrite(f"topic={self._topic}", f"topic={topic}")
        self._topic = topic
        if old:
            self.here.rewrite(old, new)

    def like(self, **more: Any) -> str:
        said = "".join(f", {name}={value!r}" for name, value in more.items())
        return f"Topics({self.base.replace('.', '[.]') + '[.].*'!r}{said})"

    def pair(self) -> str:
        return repr((self.name("eu"), self.name("us")))

    def make(self, end: str, partitions: int = 2) -> str:
        make_topic(self.kafka, self.name(end), partitions)
        return self.name(end)

    def send(self, end: str, first: int, count: int, partition: int = 0) -> None:
        rows = [(f"{end}{n}", json.dumps({"id": f"{end}{n}", "n": n})) for n in range(first, first + count)]
        self.produce(self.name(end), rows, partition)
        self.sent += [(self.name(end), f"{end}{n}", n) for n in range(first, first + count)]

    def run(self):
        folder, at = load("drill"), self.here.at
        return run(at, engine_of(folder, at.broker, at.dsn, lambda: None, IN_PROCESS), folder, Caller("me"))

    def drain(self):
        while (report := self.run()).went_on:
            pass
        return report.decision

    def rows(self) -> list[tuple]:
        """Returns the topic, id and number of every row, by the ledger's own view of where it came from."""
        return self.here.drill.ask(
            "select o.topic, d.id, d.n from public.drill d join lockstep.origin o using (_stream) order by 1, 3"
        )

    def whole(self) -> list[tuple]:
        return sorted(self.sent, key=lambda row: (row[0], row[2]))

    def retire(self, topic: str):
        return retire(self.here.at.conn, self.here.at.broker, load("drill").pipeline, None, ME, topic=topic)

    def delete(self, end: str) -> None:
        admin(self.kafka).delete_topics([self.name(end)])[self.name(end)].result(20)
        until(lambda: self.name(end) not in self.here.at.broker.topic_names(), "the topic would not go")

    def violations(self) -> list:
        here = self.here
        checks = verify(here.at.conn, here.at.broker, load("drill"), deep=True)
        return [*here.drill.violations(), *(str(each) for each in checks if not each.ok)]
