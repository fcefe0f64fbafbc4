"""Runs Lockstep in a separate warm session, or on a Spark Connect server."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.context.systems import engine_for
from lockstep.core.planning.decisions import Caller
from lockstep.dev.servers import spark_connect
from lockstep.dev.setup import jars
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import run
from lockstep.steps.context import Context
from peers.contender import UPSERT, started
from peers.records import target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.dev.servers.spark_connect import SparkServer
    from peers.contender import Place, Task
    from peers.workload import Output

DEFINITION = """from lockstep.core.pipeline.definition import *
P = Pipeline("{name}", "{topic}", Json("{schema}"{json}), {target}, limits=Limits(records={limit}), guarantee={guarantee}())
"""


@dataclass(slots=True)
class Ours:
    """The five steps of a run, in one process. Spark runs in this process, unless it is a server's."""

    by_server: bool = False
    master: str = "local[*]"
    _place: Place | None = None
    _server: SparkServer | None = None
    _loaded: dict[str, PipelineFolder] = field(default_factory=dict)

    def start(self, place: Place) -> None:
        """Starts the session, or the server that `lockstep dev up --spark-connect` starts."""
        self._place = place
        settled(place)
        os.environ["SPARK_MASTER"] = self.master
        if self.by_server:
            self._server = spark_connect.start(place.home)
            os.environ["SPARK_REMOTE"] = self._server.remote
        from lockstep.engine.spark.session import session  # noqa: PLC0415 - reads the environment

        session()

    def prepare(self, task: Task) -> None:
        """Makes the pipeline's folder and its table."""
        self._loaded[task.table] = defined(self._at, task)

    def run(self, task: Task) -> Mapping[str, float]:
        """Runs from plan to announce."""
        loaded = self._loaded[task.table]
        with closing(Context(self._at.dsn, Broker(self._at.bootstrap))) as at:
            report = run(at, engine_for(loaded, at), loaded, Caller("bench"))
        return report.seconds

    def finish(self) -> None:
        """Does nothing, because nothing goes on."""

    def end(self) -> None:
        """Ends the server, which is not a child."""
        if self._server:
            spark_connect.stop(self._server)

    @property
    def _at(self) -> Place:
        return started(self._place)


def settled(place: Place) -> None:
    """Sets the environment that leads Lockstep to this place."""
    os.environ["LOCKSTEP_PIPELINES"] = str(_folder(place))
    os.environ["LOCKSTEP_JARS"] = str(jars.folder())


def defined(place: Place, task: Task, limit: int = 100_000_000) -> PipelineFolder:
    """Defines a pipeline of the table's name, with batches of at most so many records, and makes its tables."""
    name, workload = task.table, task.workload
    facts = {
        "name": name,
        "topic": task.topic,
        "schema": workload.schema,
        "json": workload.json and f", {workload.json}",
        "limit": limit,
        "guarantee": task.option("guarantee"),
        "target": f"({', '.join(_target(task, output) for output in workload.outputs)})",
    }
    folder = _folder(place) / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(DEFINITION.format(**facts))
    (folder / "target.sql").write_text(";\n".join(target(task, output) for output in workload.outputs))
    if workload.transforms:
        (folder / "transform.py").write_text(Path(workload.transforms).read_text())
    loaded = load(name)
    with closing(connect(place.dsn)) as conn:
        migrate_target(conn, loaded)
    return loaded


def _target(task: Task, output: Output) -> str:
    table = f'"public.{task.table}{output.suffix}"'
    if task.kind == UPSERT:
        return f'Upsert({table}, ("id",))'
    return f"Append({table}, {output.transform!r})" if output.transform else f"Append({table})"


def _folder(place: Place) -> Path:
    return Path(place.home) / "pipelines"
