"""Runs committed batches again, each on a ledger that is thrown away, and keeps what they make in a file."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Protocol

from lockstep.adapters.postgres import OWNER, transaction
from lockstep.core.changes.promotion import DIGEST_DIGITS
from lockstep.core.errors import BadData, Refusal
from lockstep.ledger.proof import canary
from lockstep.ledger.proof.verify import committed_segments
from lockstep.steps.rerun.spool import FileDigest, FileSlice, digest_of_file
from lockstep.targets.proof.remade import carry_staged

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from psycopg2.extensions import connection, cursor

    from lockstep.core.changes.canary import Past
    from lockstep.core.offsets import LogView, TopicPartition
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.proof.verification import BatchesSince
    from lockstep.steps.requests.rehearse import Rehearsed

NO_SPARK = "transform.py makes the rows"


@dataclass(frozen=True, slots=True)
class Rerun:
    """One batch that was run again: the connection to its ledger, its outcome, and each target's staged columns."""

    conn: connection
    done: Rehearsed
    columns: tuple[tuple[Column, ...], ...]


class Rerunner(Protocol):
    """Runs a committed batch again, on a ledger that lives as long as the block."""

    def __call__(self, past: Past, step: str, /) -> AbstractContextManager[Rerun]:
        """Runs the batch, and says that it is at this step.

        Raises `Refusal` if there is no ledger for it, or if the definition cannot run at all.
        """

    def outside_values(self) -> tuple[str, ...]:
        """Returns what the transform takes from outside its records, so that no two runs need to agree."""


class Remade:
    """The rows that today's code makes of committed batches. They wait in one file on disk, by batch, target and stream.

    `columns` are each target's staged ones, none before a batch was run. `failed` says of a batch why nothing was made.
    Of those that are `lost`, Kafka does not hold all records. `others` are those of another definition. `definitions` has
    the hash that made each batch. `next_command` is the one after which more batches can be run.
    """

    def __init__(self, folder: PipelineFolder, rerunner: Rerunner | None, spool: IO[bytes]) -> None:
        self.columns: tuple[tuple[Column, ...], ...] = ()
        self.failed: dict[int, str] = {}
        self.lost: set[int] = set()
        self.others: dict[int, str] = {}
        self.definitions: dict[int, str] = {}
        self.next_command: str | None = f"lockstep verify {folder.pipeline.name} --deep" if rerunner is None else None
        self.name = folder.pipeline.name
        self._targets = range(len(folder.pipeline.targets))
        self._rerunner, self._spool = rerunner, spool
        self._pasts: dict[int, Past] = {}
        self._slices: dict[tuple[int, int, int], tuple[int, int]] = {}
        self._agrees: dict[int, str] = {}

    @property
    def why_not(self) -> str | None:
        """Returns why nothing at all can be compared, or None if something can."""
        if self._rerunner is None:
            return NO_SPARK
        if self.columns:
            return None
        return next(iter([*self.failed.values(), *self.others_text()]), "no batch is there to be run again")

    def others_text(self) -> list[str]:
        """Returns how many batches another definition made, and the first of them, or nothing if none did."""
        if not self.others:
            return []
        first = min(self.others)
        return [
            f"{len(self.others)} batches that another definition made, batch {first} by {self.others[first][:DIGEST_DIGITS]}"
        ]

    @property
    def oldest_other(self) -> int | None:
        """Returns the oldest batch that another definition made."""
        return min(self.others, default=None)

    @property
    def may_run(self) -> bool:
        """Returns True if there is something that runs batches."""
        return self._rerunner is not None

    def has(self, batch_id: int) -> bool:
        """Returns True if the batch was run again."""
        return batch_id in self._pasts and batch_id not in self.failed

    def add(self, past: Past, step: str) -> None:
        """Runs a batch and keeps its rows. Keeps the reason if it cannot be run, or if its rows are refused."""
        if self._rerunner is None:
            return
        self._pasts[past.batch_id] = past
        try:
            with self._rerunner(past, step) as rerun:
                if rerun.done.attempt is None or not rerun.done.verdict.ok:
                    why = "; ".join(rerun.done.verdict.refusals) or "its rows were not judged"
                    shown = f"lockstep replay {self.name} --batch {past.batch_id} --preview"
                    self._fail(past, f"today's code refuses it: {why}", shown)
                    return
                self.columns = rerun.columns
                for key, piece in _pieces(rerun, past, self._targets):
                    begin = self._spool.seek(0, 2)
                    piece(self._spool)
                    self._slices[past.batch_id, *key] = (begin, self._spool.tell())
        except (Refusal, BadData) as error:
            self._fail(past, error.message, error.next_command)

    def lose(self, past: Past, why: str) -> None:
        """Takes note of a batch whose records Kafka does not hold."""
        self.failed[past.batch_id] = f"batch {past.batch_id}: {why}"
        self.lost.add(past.batch_id)

    def rows(self, batch_id: int, place: int, stream_id: int) -> IO[bytes]:
        """Returns the rows of one batch, target and stream, to be read once."""
        return FileSlice(self._spool, *self._slices[batch_id, place, stream_id])  # type: ignore[return-value]

    def made_by(self, batch_id: int) -> str:
        """Returns the code that made a batch, as the ledger knows it."""
        version = self._pasts[batch_id].code_version
        return f"batch {batch_id} was made by definition {self.definitions[batch_id][:DIGEST_DIGITS]}, of Lockstep {version}"

    def why_unrepeatable(self, batch_id: int) -> str:
        """Returns why another run of the batch may make other rows. Empty if a second run made the same."""
        if batch_id not in self._agrees:
            self._agrees[batch_id] = self._outside() or self._differs(self._pasts[batch_id])
        return self._agrees[batch_id]

    def _outside(self) -> str:
        values = self._rerunner.outside_values() if self._rerunner else ()
        return f"its transform takes {', '.join(values)} from outside its records" if values else ""

    def _differs(self, past: Past) -> str:
        """Runs the batch once more. Returns the reason if its rows are others than those of the first run."""
        if self._rerunner is None:
            return NO_SPARK
        try:
            with self._rerunner(past, f"batch {past.batch_id}, once more") as rerun:
                for key, piece in _pieces(rerun, past, self._targets):
                    again = FileDigest()
                    piece(again)
                    if again.value != digest_of_file(self.rows(past.batch_id, *key)):
                        return "two runs of its transform make different rows"
        except (Refusal, BadData) as error:
            return f"a second run was refused: {error.message}"
        return ""

    def _fail(self, past: Past, why: str, next_command: str | None) -> None:
        self.failed[past.batch_id] = f"batch {past.batch_id}: {why}"
        self.next_command = self.next_command or next_command


@contextmanager
def open_remade(folder: PipelineFolder, rerunner: Rerunner | None) -> Iterator[Remade]:
    """Yields the place for the rows of batches that are run again. Removes their file behind the block."""
    with TemporaryFile() as spool:
        yield Remade(folder, rerunner, spool)


def run_again(
    cur: cursor,
    remade: Remade,
    view: LogView,
    streams: Sequence[Any],
    alike: frozenset[str],
    since: BatchesSince | None,
) -> Remade:
    """Runs every batch again that today's code made and of which Kafka holds all records."""
    by_batch: dict[int, list[str]] = {}
    for stream in streams:
        found = committed_segments(cur, stream.stream_id)
        for segment in since.among(found) if since else found:
            by_batch.setdefault(segment.batch_id, []).append(segment.definition)
    remade.definitions = {batch: made_by[0] for batch, made_by in by_batch.items()}
    wanted = [batch for batch, made_by in by_batch.items() if alike.issuperset(made_by)]
    remade.others = {batch: remade.definitions[batch] for batch in by_batch.keys() - set(wanted)}
    known = {stream.stream_id for stream in streams}
    pasts = canary.past_batches(cur, remade.name, wanted) if remade.may_run and wanted else []
    for number, past in enumerate(pasts, 1):
        if why := _not_in_log(past, view, known):
            remade.lose(past, why)
        else:
            remade.add(past, f"batch {past.batch_id} ({number} of {len(pasts)})")
    return remade


def _not_in_log(past: Past, view: LogView, known: Collection[int]) -> str:
    """Returns why a batch cannot be read again as a whole, or an empty text."""
    for item in past.ranges:
        bounds = view.get(item.offsets.topic_partition)
        if item.stream_id not in known or bounds is None or bounds.log_start > item.offsets.from_offset:
            return f"Kafka no longer holds all of {item.offsets}"
    return ""


def _pieces(rerun: Rerun, past: Past, places: range) -> Iterator[tuple[tuple[int, int], Callable[[Any], None]]]:
    """Yields what copies each target's rows of each stream into a file. Streams have the numbers of the batch's ledger."""
    attempt = rerun.done.attempt
    if attempt is None:
        return
    ours: Mapping[TopicPartition, int] = {item.offsets.topic_partition: item.stream_id for item in past.ranges}
    with transaction(rerun.conn, OWNER) as cur:
        for there, where in canary.partitions_of_streams(cur).items():
            for place in places if where in ours else ():
                columns = rerun.columns[place]

                def copy(file: Any, place: int = place, there: int = there, columns: Any = columns) -> None:
                    carry_staged(cur, attempt, place, there, columns, file)

                yield (place, ours[where]), copy
