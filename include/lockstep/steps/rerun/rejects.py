"""Compares the rejects of batches with the records that are rejected when they are run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.proof.verification import PromiseCheck, Share, Wrong
from lockstep.ledger.proof import verify as ledger
from lockstep.steps.rerun.again import RowsAgain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.steps.proof.verify_log import Log

REJECTS_AGAIN = "every reject is one when its batch is run again"


def rejects_check(log: Log, streams: Sequence[Any]) -> PromiseCheck:
    """Compares, record by record, what transform and suite reject now with the ledger's rejects."""
    remade, of = log.remade, sum(len(log.segments(stream)) for stream in streams)
    if remade is None or log.undecodable:
        share = log.none_of(of, "segments")  # the checks of the targets say it in a line of their own
        return PromiseCheck(REJECTS_AGAIN, ok=True, detail=f"not compared: {log.undecodable}", share=share)
    again, wrong, segments, rejects = RowsAgain(log, remade), Wrong(), 0, 0
    for stream in streams:
        for segment in log.segments(stream):
            if not again.left.may_compare(segment):
                continue
            stretch = (segment.from_offset, segment.until_offset)
            fatal = ledger.fatal_between(log.cur, stream.stream_id, *stretch)
            now = again.loaded(stream, segment).rejected(*stretch) - fatal
            then = ledger.rejected_between(log.cur, stream.stream_id, *stretch) - fatal
            found, where = Wrong(), f"{stream.topic}-{stream.partition} offset"
            for offset in sorted(now ^ then):
                what = "it is a reject now, and was none" if offset in now else "it is a reject, and is none now"
                found.add(f"{where} {offset}: {what}")
            if again.left.is_settled([segment.batch_id], found, wrong):
                segments, rejects = segments + 1, rejects + len(then)
    again.drop()
    told = f"{rejects} rejects of {segments} segments"
    share = again.left.lowered(Share(segments, of, "segments"), to=segments)
    return wrong.check(REJECTS_AGAIN, told=told, left_out="; ".join(again.left.texts), share=share)
