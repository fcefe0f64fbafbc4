"""Chooses how a target is compared with Kafka."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lockstep.core.pipeline.definition import Accumulate, Append, Upsert, Windows
from lockstep.core.proof.verification import PromiseCheck
from lockstep.ledger.proof.verify import check_name
from lockstep.steps.proof.verify_append import appended
from lockstep.steps.proof.verify_totals import recomputed
from lockstep.steps.proof.verify_upsert import upserted
from lockstep.steps.proof.verify_windows import recounted
from lockstep.steps.rerun.rejects import rejects_check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.steps.proof.verify_log import Log


def checks_by_log(
    pipeline: Pipeline, logs: Sequence[Log], streams: Sequence[Any], ever: Sequence[Any]
) -> list[PromiseCheck]:
    """Returns the checks of each target, each with its `log`. `ever` are all streams, also of logs that are gone."""
    checks = [rejects_check(logs[0], streams)] if logs[0].remade else []
    for log in logs:
        checks += [
            replace(c, name=check_name(pipeline, log.pipeline.first, c.name)) for c in _of_target(log, streams, ever)
        ]
    return checks


def _of_target(log: Log, streams: Sequence[Any], ever: Sequence[Any]) -> list[PromiseCheck]:
    target = log.pipeline.first
    if log.since and isinstance(target, Upsert | Windows):
        why = (
            "an earlier or a later batch may hold a key's newest record, or a part of a window: verify without --since"
        )
        name = f"rows of {target.table} by the log"
        return [PromiseCheck(name, ok=True, detail="not looked at", target=target.table, left_out=why)]
    match target:
        case Append():
            return appended(log, streams)
        case Upsert() as target:
            deletes = target in log.folder.pipeline.tombstone_targets
            return upserted(log, target, streams, takes_tombstones=deletes)
        case Accumulate() as target:
            return recomputed(log, target, streams, ever)
        case Windows() as target:
            return recounted(log, target, streams, ever)
