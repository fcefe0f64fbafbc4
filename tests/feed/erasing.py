"""Provides a table with a feed from which rows are erased, and what is in its images, its topic and its proofs then."""

from __future__ import annotations

from dataclasses import dataclass, replace

from feed.sending import Sending, sent_to
from lockstep.adapters.postgres import OWNER, READER, transaction
from lockstep.core.changes.person import Person
from lockstep.core.pipeline.definition import Feed, Pipeline, Upsert
from lockstep.ledger.feed.verify import feed_checks
from lockstep.ledger.proof.verify_erased import erased_checks
from lockstep.steps.changes.erase import Erased, erase
from lockstep.steps.proof.verify_topic import look_at_topics, topic_checks
from support.oracles.folded import not_folded
from support.scenes.erasing import KEY

STREAM = """insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset,
    position) values (%s, 'c', %s, 't', 0, 0, 0, 0, 0)"""
IMAGES = """select s.first_number + i._ordinal_in_set, i._change, i.id, i.n from lockstep_feed.public_orders i
    join lockstep.change_set s on s.change_set_id = i._change_set order by 1, 2 desc"""
GRANT = """set local role lockstep_targets; grant select, delete on public.orders to lockstep_committer;
    grant select on public.orders to lockstep_reader"""


@dataclass
class Erasing(Sending):
    """A table whose rows are changed by hand, and erased as a person's."""

    def make(self) -> None:
        super().make()
        with transaction(self.at.conn, OWNER) as cur:
            cur.execute(STREAM, ("orders", self.pipeline.topic))
            cur.execute(GRANT)

    def erase(
        self, key: str = KEY, column: str = "id", *, pipeline: Pipeline | None = None, preview: bool = False
    ) -> Erased:
        person = Person("me", "letter 12")
        return erase(self.at.conn, self.at.broker, pipeline or self.pipeline, key, column, person, preview=preview)

    def images(self) -> list[tuple]:
        """Returns number, kind, id and n of every image."""
        return self.ask(IMAGES)

    def unproved(self) -> list[str]:
        """Returns what verify finds wrong with the feed, its topic and the erasures, and what our own fold does."""
        found = look_at_topics(self.at.conn, self.at.broker, self.pipeline, deep=True)
        with transaction(self.at.conn, READER) as cur:
            checks = feed_checks(cur, "orders", self.target) + erased_checks(cur, self.pipeline)
            checks += topic_checks(cur, self.at.broker, self.pipeline, found, lambda: None)
        return [f"{each.name}: {each.detail}" for each in checks if not each.ok] + not_folded(self.ask, "public.orders")


def erasing(dsn: str, kafka: str, source: str, sink: str | None = None, shape: str = "row") -> Erasing:
    """Returns the table, whose feed goes to a topic if there is a `sink`. The pipeline reads `source`."""
    pipeline = replace(sent_to(sink or "none", shape), topic=source)
    if sink is None:
        pipeline = replace(pipeline, target=Upsert("public.orders", key=("id",), feed=Feed()))
    here = Erasing(dsn, kafka, pipeline)
    here.make()
    return here
