"""Finds the project that commands work in: its pipelines, DAGs and plugins. Lays out a new one."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters import folders
from lockstep.core.errors import Refusal
from lockstep.installed import CHECKOUT, IN_CHECKOUT, SHIPPED

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE, DAGS, PIPELINES_PART = ".lockstep", "dags", Path("include", "pipelines")


@dataclass(frozen=True, slots=True)
class Project:
    """The folders of a project, as Airflow takes them."""

    dags: Path
    plugins: Path
    pipelines: Path

    def exports(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Returns the variable that lets DAG files import `pipelines`. Empty in a checkout, where they can."""
        if IN_CHECKOUT:
            return {}
        before = environ.get("PYTHONPATH")
        return {"PYTHONPATH": os.pathsep.join([str(self.pipelines.parent), *([before] if before else [])])}


def find_project(environ: Mapping[str, str]) -> Project:
    """Returns the checkout of this code, or for an installed package the project of the current folder."""
    if IN_CHECKOUT:
        return _project(CHECKOUT, CHECKOUT / PIPELINES_PART)
    pipelines = folders.root(environ)
    return _project(pipelines.parents[1] if pipelines.parts[-2:] == PIPELINES_PART.parts else Path.cwd(), pipelines)


def lay_out(folder: Path, *, examples: bool) -> list[Path]:
    """Creates a project's folders in this folder, and returns the new ones. Changes nothing that is there.

    The examples are those of the demo, with their DAGs.
    """
    made = [folder / part for part in (DAGS, PIPELINES_PART, STATE) if not (folder / part).exists()]
    try:
        for place in made:
            shipped = SHIPPED / place.relative_to(folder)
            if examples and place.name != STATE:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copytree(shipped, place, ignore=shutil.ignore_patterns("__pycache__", ".*"))
            else:
                place.mkdir(parents=True, mode=0o700 if place.name == STATE else 0o777)
        if folder / PIPELINES_PART in made and not examples:
            (folder / PIPELINES_PART / "__init__.py").write_text(
                '"""Holds one folder for each pipeline."""\n', encoding="utf-8"
            )
        if not (folder / ".gitignore").exists():
            (folder / ".gitignore").write_text(f"{STATE}/\n__pycache__/\n", encoding="utf-8")
    except OSError as error:
        raise Refusal(f"{error.filename or folder}: {error.strerror}", next_command=f"ls -ld {folder}") from None
    return made


def _project(folder: Path, pipelines: Path) -> Project:
    return Project(folder / DAGS, folder / "plugins", pipelines)
