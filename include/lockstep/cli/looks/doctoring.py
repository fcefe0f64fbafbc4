"""Defines `doctor`, which shows faults of a pipeline's surroundings, each with its reason and its remedy."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.adapters import folders
from lockstep.cli.options import OneName
from lockstep.cli.output import AsJson, line_width, say, show
from lockstep.context import systems
from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from lockstep.core.health.findings import DoctorReport, Finding
    from lockstep.core.pipeline.folder import PipelineFolder

WIDEST = 100


Production = Annotated[
    bool, typer.Option("--production", help="What is missing for production, one line each; exit 1 when something is.")
]


def doctor_command(name: OneName = None, as_json: AsJson = False, production: Production = False) -> None:
    """Check the systems that pipelines rest on: broker, topic, database, ledger, versions.

    Exits 0 if there is no problem. Warnings are allowed.
    """
    from lockstep.adapters.machine_facts import machine_facts
    from lockstep.steps.inspect.doctor import Places
    from lockstep.steps.inspect.doctor import doctor as examine

    loaded, broken = _all() if name is None else ([folders.load(name)], [])
    pipelines = [folder.pipeline for folder in loaded]
    transformed = [folder.pipeline.name for folder in loaded if folder.transforms]
    places = Places(systems.dsn, systems.surveyed_broker, systems.configured_registry)
    machine = machine_facts()
    now = datetime.now(UTC)
    report = examine(pipelines, broken, places, machine, now, named=name is not None, transformed=transformed)
    if production:
        _say_missing(report, as_json=as_json)
        return
    document = {
        "ok": report.ok,
        "pipelines": [pipeline.name for pipeline in pipelines],
        "problems": report.problems,
        "warnings": len(report.findings) - report.problems,
        "passed": report.passed,
        "findings": [asdict(finding) for finding in report.findings],
    }
    show(document, as_json, lambda: _say(report))
    if not report.ok:
        raise typer.Exit(1)


def _say_missing(report: DoctorReport, *, as_json: bool) -> None:
    from lockstep.cli.looks.producing import production_facts
    from lockstep.core.health.production import Point, unmet_points

    found = unmet_points(production_facts(report))
    points = {each.point for each in found}
    document = {"ok": not found, "missing": [asdict(each) for each in found], "met": len(Point) - len(points)}

    def for_people() -> None:
        for each in found:
            say(f"missing  {each}")
        say(f"{len(Point) - len(points)} of {len(Point)} points are met")

    show(document, as_json, for_people)
    if found:
        raise typer.Exit(1)


def _all() -> tuple[list[PipelineFolder], list[Refusal]]:
    """Returns every pipeline that loads, and the refusals of the others."""
    found = list(folders.load_each(folders.pipeline_names()).values())
    loaded = [each for each in found if not isinstance(each, Refusal)]
    return loaded, [each for each in found if isinstance(each, Refusal)]


def _say(report: DoctorReport) -> None:
    width = line_width(WIDEST)
    for finding in report.findings:
        _say_finding(finding, width)
    warnings = len(report.findings) - report.problems
    say(f"{report.passed} checks passed, {warnings} warnings, {report.problems} problems")


def _say_finding(finding: Finding, width: int) -> None:
    head = f"{finding.severity}  {finding.subject}  {finding.check}: {finding.found}"
    for label, text in (("", head), ("  why: ", finding.why)):
        say(textwrap.fill(text, width, initial_indent=label, subsequent_indent="       "))
    # Not folded: a command is copied from here.
    say(f"  set: {finding.remedy}")
    say("")
