"""Puts into the wheel a copy of what the code needs beside it: jobs, jars to resolve, DAGs and example pipelines.

`lockstep.installed` finds it there. All else about the package is in pyproject.toml.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

BESIDE = ("ivy.xml", "spark_jobs", "dags", "include/pipelines")


class WithProject(build_py):
    """Builds the package with `lockstep/project` in it. An editable installation has the checkout instead."""

    def run(self) -> None:
        """Copies the files behind those of the package, from nothing, so that no file of yesterday is left."""
        super().run()
        if self.editable_mode:
            return
        project = Path(self.build_lib, "lockstep", "project")
        shutil.rmtree(project, ignore_errors=True)
        for name in BESIDE:
            source, place = Path(name), project / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__", ".*"))
            else:
                shutil.copy(source, place)


setup(cmdclass={"build_py": WithProject})
