"""Asks the schema registry if it answers, and if it has the subjects of the pipelines that decode by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal
from lockstep.core.health.findings import Check, problem, warning
from lockstep.core.pipeline.formats import registered_of
from lockstep.core.registry import NAME_REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockstep.core.health.findings import Judged
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.registry import Registry

WHY = "a record's schema comes from there: a batch with a schema that is not known yet waits"
NOT_SET = "LOCKSTEP_REGISTRY is not set"
NO_SCHEMA = "each record of another subject is a reject"


def registry_findings(pipelines: Sequence[Pipeline], place: Callable[[], Registry | None]) -> Judged:
    """Returns what is wrong with the registry for the pipelines that need one. Asks nothing if none does."""
    formats = {each.name: wire for each in pipelines if (wire := registered_of(each.format))}
    if not formats:
        return []
    try:
        registry = place()
        if registry is None:
            return [problem(Check.REGISTRY, "registry", NOT_SET, WHY, NAME_REGISTRY)]
        from lockstep.formats.avro.schemas import schemas  # noqa: PLC0415 - the client is slow to import

        known = schemas(registry)
        known.require_answer()
        lacking = {name: each.subject for name, each in formats.items() if each.subject and not known.has(each.subject)}
    except Refusal as refusal:
        return [problem(Check.REGISTRY, "registry", refusal.message, WHY, refusal.next_command or NAME_REGISTRY)]
    remedy = "look at format.subject, or register the schema"
    return [
        None,
        *(
            warning(
                Check.REGISTRY,
                f"pipeline {name}",
                f"subject {subject} has no schema at {registry.shown}",
                NO_SCHEMA,
                remedy,
            )
            for name, subject in lacking.items()
        ),
    ]
