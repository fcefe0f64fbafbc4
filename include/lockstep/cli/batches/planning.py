"""Defines `plan`, which says or records the next live batch of a pipeline, or says it of all."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.adapters.folders import load, load_each, pipeline_names
from lockstep.adapters.processes import this_owner
from lockstep.cli.batches.running import CallKeyOption, Retry, TakeOver, finish
from lockstep.cli.exits import exit_of
from lockstep.cli.output import AsJson, print_json, say
from lockstep.context.systems import engine_for, open_context
from lockstep.core.errors import NeedsDecision, Refusal
from lockstep.core.pipeline.stores import require_address
from lockstep.core.planning.decisions import Caller, Idle, Start, decision_document

if TYPE_CHECKING:
    from lockstep.steps.batch.plan import Planned
    from lockstep.steps.fleet.look import Looked

EveryPipeline = Annotated[bool, typer.Option("--all", help="Look at all pipelines at once. Records nothing.")]
MaybeName = Annotated[str | None, typer.Argument(help="The pipeline.", metavar="NAME", show_default=False)]


def plan_command(
    name: MaybeName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what the next batch would be.")] = False,
    key: CallKeyOption = None,
    take_over: TakeOver = False,
    retry: Retry = False,
    everything: EveryPipeline = False,
    as_json: AsJson = False,
) -> None:
    """Plan the next live batch and record it. `run` then does it.

    --all says of each pipeline what --dry-run would say, without route and warnings. It asks Kafka and Postgres once.
    """
    if everything:
        _refuse_of_one(name, {"--key": key, "--take-over": take_over, "--retry": retry})
        _plan_all(as_json=as_json)
        return
    if name is None:
        raise typer.BadParameter("name a pipeline, or say --all", param_hint="NAME")
    from lockstep.steps.batch.plan import plan as plan_step
    from lockstep.steps.inspect.warn import known_partitions, warn
    from lockstep.steps.ranges.stage_once import next_route

    folder, at = load(name), open_context()
    require_address(name, folder.pipeline.store, at.stores)
    known = known_partitions(at.conn, folder.pipeline)
    caller = Caller(this_owner(), key, take_over, retry)
    planned = plan_step(at.conn, at.broker, folder, caller, datetime.now(UTC), dry_run=dry_run)
    ranges = planned.decision.ranges if isinstance(planned.decision, Start) else ()
    document = {
        **plan_document(name, planned, dry_run=dry_run),
        **({"route": next_route(at, engine_for(folder, at), folder, ranges).document()} if ranges else {}),
        "warnings": warn(at.conn, at.broker, folder.pipeline, known, datetime.now(UTC)),
    }
    finish(planned.decision, document, as_json=as_json)


def plan_document(name: str, planned: Planned, *, dry_run: bool) -> dict[str, Any]:
    """Returns the answer of a plan as JSON: the decision, its batch and its ranges."""
    is_start = isinstance(planned.decision, Start)
    ranges = [asdict(item.offsets) for item in planned.decision.ranges] if isinstance(planned.decision, Start) else []
    return {
        "pipeline": name,
        **decision_document(planned.decision),
        "batch": None if dry_run and is_start else planned.batch_id,
        "dry_run": dry_run,
        "ranges": [{**item.pop("topic_partition"), **item} for item in ranges],
    }


def _refuse_of_one(name: str | None, given: dict[str, str | bool | None]) -> None:
    if name is not None:
        raise typer.BadParameter("it is for all pipelines: leave NAME out", param_hint="--all")
    for option, value in given.items():
        if value:
            raise typer.BadParameter("it is for one pipeline, and --all plans none", param_hint=option)


def _plan_all(*, as_json: bool) -> None:
    """Says what each pipeline's plan would decide. Ends like the plan of the first one that is blocked or refused."""
    from lockstep.steps.fleet.look import look_at_all

    loaded, at = load_each(pipeline_names()), open_context()
    looked = look_at_all(at, loaded, Caller(this_owner()), datetime.now(UTC))
    documents = [_document_of(each) for each in looked]
    if as_json:
        print_json({"pipelines": documents})
    else:
        _say_each(documents)
    stopped = [refusal for each in looked if (refusal := each.stopped)]
    if not stopped:
        return
    first = next((each for each in stopped if isinstance(each, NeedsDecision)), stopped[0])
    if as_json:
        raise typer.Exit(exit_of(first))
    raise first


def _document_of(looked: Looked) -> dict[str, Any]:
    if looked.planned:
        return plan_document(looked.pipeline, looked.planned, dry_run=True)
    refusal = looked.refusal or Refusal("")
    return {"pipeline": looked.pipeline, "error": refusal.message, "next": refusal.next_command}


def _say_each(documents: list[dict[str, Any]]) -> None:
    idle = sum(each.get("decision") == Idle.__name__.lower() for each in documents)
    for each in documents:
        if each.get("decision") != Idle.__name__.lower():
            say(f"{each['pipeline']}: {_in_words(each)}")
    say(f"{idle:,} of {len(documents):,} pipelines have nothing to do")


def _in_words(document: dict[str, Any]) -> str:
    if ranges := document.get("ranges"):
        waiting = sum(each["until_offset"] - each["from_offset"] for each in ranges)
        return f"start, {waiting:,} offsets of {len(ranges):,} partition{'s' * (len(ranges) > 1)}"
    reason = document.get("reason") or document.get("error") or f"batch {document['batch']}"
    following = f"  Next: {document['next']}" if document.get("next") else ""
    return f"{document.get('decision', 'refused')}: {reason}{following}"
