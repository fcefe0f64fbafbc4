"""Defines `init`, which lays out a project, and `demo`, which shows a whole one at work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lockstep.adapters.folders import shown_path
from lockstep.cli.output import AsJson, say, show

ProjectFolder = Annotated[Path, typer.Argument(help="The folder of the project.", metavar="FOLDER", show_default=True)]
DemoFolder = Annotated[
    Path,
    typer.Option("--folder", help="Where the examples go, unless this is a project that has them.", show_default=True),
]


def init_command(
    folder: ProjectFolder = Path(),
    examples: Annotated[bool, typer.Option("--examples", help="With the pipelines and DAGs of the demo.")] = False,
    as_json: AsJson = False,
) -> None:
    """Lay out a project: folders for pipelines, DAGs and the state of `lockstep dev`. Leave alone what is there."""
    from lockstep.dev.project import lay_out

    place = folder.absolute()
    made = lay_out(place, examples=examples)
    into = [] if place == Path.cwd() else [f"cd {folder}"]
    next_commands = [*into, "lockstep dev up", "lockstep migrate", "lockstep new NAME --topic TOPIC"]
    document = {"folder": str(place), "made": [str(each.relative_to(place)) for each in made], "next": next_commands}

    def for_people() -> None:
        for each in made:
            say(shown_path(each))
        say(f"Next: {', then '.join(next_commands)}")

    show(document, as_json, for_people)


def demo_command(folder: DemoFolder = Path("lockstep-demo")) -> None:
    """Start Postgres, Kafka and Airflow, load pipelines, verify them. Leave the stack up.

    Loads orders, clicks and reviews by Airflow's scheduler, and then sales and sold by `lockstep run`.
    """
    from lockstep.dev import demo

    raise typer.Exit(demo.show_demo(folder))
