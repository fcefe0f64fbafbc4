"""Defines a feed: every change of a target's table, numbered in the order of the commits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import BadDefinition, quoted
from lockstep.core.formats.registered import Avro
from lockstep.core.offsets import is_topic_name
from lockstep.core.pipeline.guarantees import Delivered
from lockstep.core.pipeline.names import reads_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.guarantees import Guarantee
    from lockstep.core.pipeline.names import TopicSource
    from lockstep.core.pipeline.stores import Store

SCHEMA = "lockstep_feed"
LONGEST_NAME = 58  # Postgres cuts names at 63, and `_from` is added
MOST_KEPT_DAYS = 36_500
SHAPES = ("row", "change")
# The reader's own columns. A column of the table that is called so gets an underscore behind its name.
READER_COLUMNS = ("number", "seq", "change", "kind", "batch_id", "at")
TIMELINE_COLUMNS = (*READER_COLUMNS, "timeline")  # of the function that is given the reader's timeline
IMAGE_COLUMNS = ("_change", "_change_set", "_ordinal_in_set")  # of the table of images, beside those of the target
_KEEP = re.compile(r"^(\d{1,6}) (minute|hour|day|week)s?\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that a feed is sent to, change by change, each once.

    A change's value is a JSON document. With `value=Avro(subject="...")` it is Avro, by a schema of the table's columns.

    With the shape `row`, the value is the row after the change, and a deletion is a tombstone. With `change`, it has the
    row before and after, and a tombstone follows the document of a deletion. The topic is made, where it is missing, if
    `partitions` says with how many.
    """

    name: str
    shape: str = "row"
    partitions: int | None = None
    value: Avro | None = None

    def __post_init__(self) -> None:
        if not is_topic_name(self.name):
            raise BadDefinition(
                f"target.feed: to: {quoted(str(self.name))} is no topic: a name has letters, digits, '.', '_' and '-'"
            )
        if self.shape not in SHAPES:
            raise BadDefinition(f"target.feed: to: shape is {self.shape!r}: it must be 'row' or 'change'")
        if self.partitions is not None and (type(self.partitions) is not int or self.partitions < 1):
            raise BadDefinition(f"target.feed: to: partitions is {self.partitions!r}: it must be a number above zero")
        if self.value is not None and not (isinstance(self.value, Avro) and self.value.is_of_the_table):
            raise BadDefinition(
                f"target.feed: to: value is {self.value!r}: it must be Avro(subject='...') without a schema, which the "
                "table's columns are"
            )

    @property
    def subject(self) -> str:
        """Returns the subject under which the schema of its values is registered."""
        return (self.value.subject if self.value else None) or f"{self.name}-value"

    def document(self) -> dict[str, Any]:
        """Returns the topic as plain JSON, for the ledger."""
        told = {"name": self.name, "shape": self.shape, "partitions": self.partitions}
        return told | ({"value": {"kind": "Avro", "subject": self.value.subject}} if self.value else {})

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Topic:
        """Returns the topic of a document of the ledger's."""
        value = document.get("value")
        return cls(**{**document, "value": Avro(subject=value["subject"]) if value else None})


@dataclass(frozen=True, slots=True)
class Feed:
    """A target's changes, in commit order: each with its gap-free number and its row before and after.

    `keep` is how long upkeep leaves them in the database, such as `12 hours`, `7 days` or `2 weeks`. `to` is the topic
    that the relay sends them to.
    """

    keep: str = "7 days"
    to: Topic | None = None

    def __str__(self) -> str:
        return f"Feed(keep={self.keep!r}{f', to={self.to}' if self.to else ''})"

    def __post_init__(self) -> None:
        if self.to is not None and not isinstance(self.to, Topic):
            raise BadDefinition(f"target.feed: to is {self.to!r}: it must be a Topic, such as Topic('orders.v1')")
        found = _KEEP.match(self.keep) if isinstance(self.keep, str) else None
        duration = timedelta(**{f"{found[2]}s": int(found[1])}) if found else timedelta()
        if not timedelta() < duration <= timedelta(days=MOST_KEPT_DAYS):
            shown = quoted(self.keep) if isinstance(self.keep, str) else quoted(repr(self.keep))
            raise BadDefinition(
                f"target.feed: keep is {shown}: it must be a duration above zero, as '90 minutes', '12 hours', '7 days' or "
                "'2 weeks'"
            )


def feed_name(table: str) -> str:
    """Returns the name of a table's feed: `public_orders` for `public.orders`."""
    return table.replace(".", "_")


def reader_name(column: str, own: tuple[str, ...] = READER_COLUMNS) -> str:
    """Returns what the reader's function calls a column of the table. `own` are the function's own columns."""
    return f"{column}_" if column in own else column


def feed_clash(columns: Iterable[str]) -> str | None:
    """Says which columns of a table its feed cannot tell apart from others, or returns None."""
    names = set(columns)
    for name in IMAGE_COLUMNS:
        if name in names:
            return f"a column {name}, which is the feed's own"
    for name in TIMELINE_COLUMNS:
        if {name, f"{name}_"} <= names:
            return f"columns {name} and {name}_, which would both be {name}_ to readers of the feed"
    return None


def refuse_bad_feed(feed: Feed | None, table: str) -> None:
    """Refuses a value that is no feed, and a table whose feed would have too long a name."""
    if feed is None:
        return
    if not isinstance(feed, Feed):
        raise BadDefinition(f"target.feed is {feed!r}: it must be a Feed, such as Feed(keep='7 days')")
    if len(feed_name(table)) > LONGEST_NAME:
        raise BadDefinition(
            f"target.feed: {feed_name(table)!r} is the feed's name, and longer than {LONGEST_NAME} letters: give the table a "
            "shorter name"
        )


def with_feeds_of(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns an earlier definition's document with the feeds of today's. A feed that is gone today stays.

    A definition may get a feed or keep it for longer. Without its feed, a table would change unannounced.
    """
    feeds = {target["table"]: target["feed"] for target in _targets(now) if "feed" in target}
    sends = {target["topic"]["name"]: target["topic"] for target in _targets(now) if "topic" in target}
    targets = [
        target | {"feed": feeds[target["table"]]}
        if target.get("table") in feeds
        else target | {"topic": sends[target["topic"]["name"]]}
        if target.get("topic", {}).get("name") in sends
        else target
        for target in _targets(earlier)
    ]
    if not (feeds or sends) or not targets:
        return earlier
    return {**earlier, "target": targets if isinstance(earlier["target"], list) else targets[0]}


def _targets(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    target = document.get("target")
    return [each for each in (target if isinstance(target, list) else [target]) if isinstance(each, dict)]


def refuse_odd_topics(feeds: Iterable[Feed | None], source: TopicSource) -> None:
    """Refuses a feed that is sent to the pipeline's own source, and two feeds that are sent to one topic."""
    names = [feed.to.name for feed in feeds if feed is not None and feed.to is not None]
    for name in names:
        if reads_topic(source, name):
            raise BadDefinition(
                f"target.feed: to: {name} is the topic that the pipeline reads: it would read what it sends"
            )
        if names.count(name) > 1:
            raise BadDefinition(f"target.feed: to: {name} stands there twice, and every feed has a topic of its own")


def refuse_other_feeds(pipeline: Pipeline, other: Pipeline) -> None:
    """Refuses a definition whose table has another feed by the definition of another pipeline."""
    told = {target.table: target.feed for target in other.targets}
    for target in pipeline.targets:
        if target.table in told and target.feed != told[target.table]:
            raise BadDefinition(
                f"{pipeline.name}: its feed of {target.table} is {target.feed}, and {other.name} says {told[target.table]}: "
                "one table has one feed",
                next_command=f"say the same in both definitions, then lockstep migrate {pipeline.name}",
            )


def refuse_feed_elsewhere(feeds: Iterable[Feed | None], guarantee: Guarantee, store: Store | None) -> None:
    """Refuses a feed of results that do not move in the transaction of their offsets."""
    if not any(feeds) or (store is None and not isinstance(guarantee, Delivered)):
        return
    where = f"in {store}" if store else f"under {type(guarantee).__name__}()"
    raise BadDefinition(
        f"target.feed: results {where} do not move in the transaction of their offsets, so no commit can number their "
        "changes: leave feed out, or say guarantee=PerBatch() or PerPartition() without a store"
    )
