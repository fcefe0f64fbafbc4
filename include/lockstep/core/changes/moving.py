"""Finds the offset of a copied topic at which a pipeline goes on, behind the records that it has read."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockstep.core.offsets import Bounds, Stream, TopicView

    Headers = Sequence[tuple[str, bytes | None]] | None

MOST_COMPARED = 200  # records before the position
LEAST_MATCHED = 20


class CopyLacksRecords(Refusal):
    """A copy that does not hold records of the old topic. It may only be behind."""


def fingerprint(key: bytes | None, value: bytes | None, stamp: int | None, headers: Headers) -> bytes:
    """Returns a digest of everything that a record keeps when it is copied. Two records have the same if these are equal."""
    digest = blake2b(digest_size=16)
    parts = [key, value, None if stamp is None else str(stamp).encode()]
    for name, content in headers or ():
        parts += [name.encode(errors="surrogatepass"), content]
    for part in parts:
        digest.update(b"-" if part is None else b"%d:" % len(part) + part)
    return digest.digest()


@dataclass(frozen=True, slots=True)
class Trail:
    """The last visible records before a position, as fingerprints in the log's order.

    `is_whole` says that nothing visible was ever before them.
    """

    prints: tuple[bytes, ...]
    is_whole: bool

    @property
    def is_proof(self) -> bool:
        """Returns True if a match of these records says where the position is."""
        return self.is_whole or len(self.prints) >= LEAST_MATCHED


@dataclass(frozen=True, slots=True)
class Match:
    """A place in the copy with the trail's last records. `offset` is directly behind it.

    `at_start` says that the copy has no visible record before it.
    """

    offset: int
    matched: int
    at_start: bool


@dataclass(slots=True)
class Search:
    """A search for a trail in a copy, record by record. `from_start` says that it begins at the copy's first record."""

    trail: Trail
    from_start: bool
    matches: list[Match] = field(default_factory=list)
    longest: int = 0

    def through(self, records: Iterable[tuple[int, bytes]]) -> Search:
        """Reads offsets and fingerprints in the log's order, and keeps every match that is long enough."""
        wanted = self.trail.prints[::-1]
        enough, seen = min(LEAST_MATCHED, len(wanted)), deque[bytes](maxlen=max(1, len(wanted)))
        for count, (offset, record) in enumerate(records, 1):
            seen.appendleft(record)
            matched = 0
            for one, other in zip(seen, wanted, strict=False):
                if one != other:
                    break
                matched += 1
            self.longest = max(self.longest, matched)
            if wanted and matched >= enough:
                self.matches.append(Match(offset + 1, matched, self.from_start and matched == count))
        return self


def proved_place(search: Search, where: str, copy: str, bounds: Bounds, again: str, *, compacts: bool) -> Match:
    """Returns the one place in the copy that is proved. `where` says which offsets of the old topic the trail is.

    Raises `CopyLacksRecords` if there is none yet, and `Refusal` if there are two, or if other records stand before it.
    `again` is the command to type when the copy is in order.
    """
    trail, found, anew = search.trail, search.matches, f"copy the topic anew into another one, then {again}"
    if not trail.prints:
        if bounds.log_start:
            why = f"{where} hold no record, and {copy} begins at {bounds.log_start}: its first records are missing"
            raise Refusal(why, next_command=anew)
        return Match(0, 0, at_start=True)
    if not found:
        raise CopyLacksRecords(
            f"{where} are not in {copy} [{bounds.log_start}, {bounds.stable_end}): at most {search.longest} of these "
            f"{len(trail.prints)} records stand there in a row; it is behind, truncated, or has other timestamps or headers",
            next_command=f"wait for the copy, or copy with timestamps and headers, then {again}",
        )
    if len(found) > 1:
        behind = ", ".join(str(match.offset) for match in found[:3])
        why = f"{where} stand {len(found)} times in {copy}, before {behind}: nothing says which copy goes on"
        raise Refusal(why, next_command=anew)
    match = found[0]
    if bounds.log_start and len(trail.prints) < LEAST_MATCHED:
        why = f"{where} hold {len(trail.prints)} records, and {copy} begins at {bounds.log_start}: that proves no place"
        raise Refusal(why, next_command=anew)
    if trail.is_whole and not match.at_start:
        why = f"{where} are all that was written, and {copy} holds other records before {match.offset}: nothing would read them"
        raise Refusal(why, next_command=anew)
    if match.matched < len(trail.prints) and not (match.at_start or compacts):
        raise Refusal(
            f"{where}: only the last {match.matched} of these {len(trail.prints)} records stand in a row before {match.offset} "
            f"of {copy}, and another record is before them: nothing would read it",
            next_command=anew,
        )
    return match


def first_missing(wanted: Iterable[tuple[int, bytes]], there: Iterable[tuple[int, bytes]]) -> tuple[int | None, int]:
    """Returns the first wanted offset whose record is not there in order, or None. Counts those that are.

    Other records may stand between.
    """
    rest, count = iter(there), 0
    for offset, record in wanted:
        if not any(other == record for _, other in rest):
            return offset, count
        count += 1
    return None, count


@dataclass(frozen=True, slots=True)
class MovedStream:
    """A stream of the old topic, and the offset of the new one at which its successor begins.

    `matched` records before it are the same in both. `waiting` records behind the position are in the copy, too.
    """

    stream: Stream
    offset: int
    matched: int
    waiting: int

    def document(self) -> dict[str, int]:
        """Describes it, for `--json`."""
        return self.decision() | {"waiting": self.waiting}

    def decision(self) -> dict[str, int]:
        """Describes it, for the ledger."""
        return {
            "stream_id": self.stream.stream_id,
            "partition": self.stream.partition,
            "position": self.stream.position,
            "offset": self.offset,
            "matched": self.matched,
        }


@dataclass(frozen=True, slots=True)
class Move:
    """A pipeline's way to another topic or cluster, partition by partition.

    `skipped` offsets of the old topic were never filled. Nothing can fill them afterwards.
    """

    pipeline: str
    view: TopicView
    moved: tuple[MovedStream, ...]
    words: str
    skipped: int = 0

    @property
    def streams(self) -> tuple[Stream, ...]:
        """Returns the streams that are closed."""
        return tuple(each.stream for each in self.moved)

    @property
    def digest(self) -> str:
        """Returns the digest of what is decided: both logs, each position, and where it goes on.

        The ends of the logs are not part of it, because producers go on.
        """
        text = json.dumps(
            {
                "pipeline": self.pipeline,
                "from": [[*each.stream.log, each.stream.stream_id, each.stream.position] for each in self.moved],
                "to": [self.view.cluster_id, self.view.topic, self.view.topic_id],
                "at": [[each.stream.partition, each.offset] for each in self.moved],
            },
            sort_keys=True,
        )
        return sha256(text.encode()).hexdigest()

    def document(self) -> dict[str, Any]:
        """Describes the move, for `--json`."""
        return self._logs() | {"pipeline": self.pipeline, "moved": [each.document() for each in self.moved]}

    def decision(self) -> dict[str, Any]:
        """Describes the move, for the ledger."""
        return self._logs() | {"moved": [each.decision() for each in self.moved]}

    def next_command(self) -> str:
        """Returns the command that moves as it is shown."""
        return f"lockstep move {self.pipeline} {self.words} --apply {self.digest} --reason ..."

    def _logs(self) -> dict[str, Any]:
        was = self.moved[0].stream
        return {
            "digest": self.digest,
            "skipped": self.skipped,
            "from": {"cluster_id": was.cluster_id, "topic": was.topic_partition.topic, "topic_id": was.topic_id},
            "to": {"cluster_id": self.view.cluster_id, "topic": self.view.topic, "topic_id": self.view.topic_id},
        }
