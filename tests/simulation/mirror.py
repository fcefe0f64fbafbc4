"""Defines a scene whose pipeline mirrors a source's table from its change records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.errors import BadData
from lockstep.formats.debezium.decoder import ChangeDecoder
from simulation.engine import RememberedEngine
from simulation.log import BEGINNING, Record
from simulation.scene import Scene

if TYPE_CHECKING:
    import io
    from collections.abc import Sequence
    from pathlib import Path

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.guarantees import Guarantee
    from lockstep.core.proof.accounting import ManifestLine
    from lockstep.formats.rows import RecordOutcome
    from support.fakes.captured import CapturedRecord


class MirroringEngine(RememberedEngine):
    """An engine that decodes change records as a task of Spark does."""

    def columns(self, place: int = 0) -> tuple[Column, ...]:
        assert place < len(self.folder.pipeline.targets)
        return self.folder.pipeline.staged_columns

    apart = False  # whether each record is decoded by a task of its own

    def judged(self, record: Any) -> RecordOutcome:
        if self.apart:
            self._judge = self._new_judge()
        return self._judge(record.key, record.value, None)

    def _new_judge(self) -> ChangeDecoder:
        return ChangeDecoder("house", self.folder.pipeline.format)  # type: ignore[arg-type]

    def _line(self, item: Any, task: int, rows: io.StringIO) -> ManifestLine:
        self._judge = self._new_judge()
        return super()._line(item, task, rows)

    def _write(self, rows: io.StringIO, stream_id: int, offset: int, record: Any, task: int) -> int:
        outcome = self.judged(record)
        if outcome.refusal is not None:
            raise BadData(outcome.refusal)
        fields = [stream_id, offset, 0, task, record.at.isoformat(), outcome.deleted, outcome.reason]
        fields += [None if b is None or not outcome.reason else "\\\\x" + b.hex() for b in (record.key, record.value)]
        values = [outcome.values.get(column.name) for column in self.columns()]
        fields += [None, *("\\\\x" + v.hex() if isinstance(v, bytes) else v for v in values)]
        rows.write("\t".join("\\N" if f is None else str(f) for f in fields) + "\n")
        return int(outcome.reason is not None)


class Mirror(Scene):
    """A scene over change records. A key's records stand in the partition of its remainder.

    Records without a key stand in partition 0."""

    def __init__(
        self, dsn: str, home: Path, guarantee: Guarantee | None = None, *, kind: str = "mirrored", apart: bool = False
    ) -> None:
        self.apart = apart
        super().__init__(dsn, home, kind=kind, guarantee=guarantee)

    def _engine(self) -> MirroringEngine:
        engine = MirroringEngine(self.folder, self.log, self.dsn)
        engine.apart = self.apart
        return engine

    def put(self, *records: CapturedRecord) -> None:
        """Writes records, and runs a batch that reads them."""
        self.write(records)
        self.done()

    def write(self, records: Sequence[CapturedRecord]) -> None:
        for record in records:
            part = self.log.parts[sum(record.key or b"") % len(self.log.parts)]
            part.records[part.end] = Record(record.key or b"", record.value, BEGINNING)
            part.end = part.stable_end = part.end + 1

    @property
    def rows(self) -> dict[int, dict[str, Any]]:  # type: ignore[override]
        """Returns the target's rows by id."""
        found = self.ask("select id, name, doc, photo from public.house")
        return {key: {"name": name, "doc": doc, "photo": photo and bytes(photo)} for key, name, doc, photo in found}

    @property
    def unavailable(self) -> int:
        """Returns how many values the newest commit has found nowhere."""
        found = self.ask(
            "select effect ->> 'unavailable' from lockstep.attempt where state = 'committed' order by opened_at"
        )
        return int(found[-1][0] or 0)
