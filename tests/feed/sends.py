"""Runs the drill as a pipeline that sends its rows to a topic, and reads the topic as a stranger does."""

from __future__ import annotations

import json
from contextlib import closing

import psycopg2

from feed.sending import read_topic
from lockstep.adapters.processes import this_owner
from lockstep.core.registry import registry as registry_of
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.feed.relay import relay
from lockstep.steps.feed.values import register_schemas
from lockstep.steps.proof.verify import verify
from support.scenes.here import Here

HELD = "select id, n from {} order by n"


class Sends(Here):
    """The drill, which sends its rows to a topic and has no table of its author's."""

    sink = ""
    registry = None

    def into(self, sink: str, key: str = '("id",)', more: str = "", registry: str | None = None) -> None:
        """Sets the target: `more` is said of the topic. Values are Avro if there is a registry."""
        self.sink = sink
        self.rewrite("import Append,", "import Avro, Send, Topic,")
        self.rewrite('target=Append("public.drill")', f'target=Send(Topic("{sink}"{more}), key={key})')
        (self.drill.home / "drill" / "target.sql").unlink()
        migrate_target(self.at.conn, self.folder)
        if registry:
            self.registry = registry_of(registry, {}, str)
            self.at.find_registry = lambda: self.registry
            register_schemas(self.at.conn, self.folder.pipeline, self.at.find_registry)

    @property
    def table(self) -> str:
        return self.folder.pipeline.first.table

    def relay(self) -> int:
        report = relay(self.at, self.folder.pipeline, self.folder.pipeline.first, this_owner())
        assert report.stopped is None
        return report.sent

    def sent(self) -> list[dict]:
        """Returns the values that a plain consumer reads, in the order of their numbers."""
        records = [record for part in read_topic(self.drill.kafka, self.sink).values() for record in part]
        records.sort(key=lambda record: int(record[2]["lockstep.number"]))
        return [json.loads(value) for _, value, _ in records]

    def wrong(self) -> list[str]:
        return [f"{check.name}: {check.detail}" for check in self.checks() if not check.ok]

    def checks(self, *, deep: bool = True):
        return verify(self.at.conn, self.at.broker, self.folder_as_run, deep=deep, registry=self.registry)

    def held(self) -> list[tuple]:
        return self.drill.ask(HELD.format(self.table))

    def age(self, postgres: str) -> None:
        """Makes all changes older than their feed keeps them."""
        self.spoil(postgres, "update lockstep.change_set set at = at - interval '8 days'")

    def spoil(self, postgres: str, statement: str) -> None:
        """Runs a statement that no constraint and no trigger sees."""
        ((database,),) = self.drill.ask("select current_database()")
        with closing(psycopg2.connect(postgres, dbname=database)) as conn, conn, conn.cursor() as cur:
            cur.execute("set session_replication_role = replica")
            cur.execute(statement)
