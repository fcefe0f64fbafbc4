"""`metrics`: lag, headroom, ages and health of every pipeline, once or at each request, in Prometheus's format."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.adapters import folders
from lockstep.cli.output import AsJson, say, show
from lockstep.context import systems
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.pipeline.recorded import pipeline_of_document

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.steps.inspect.scrape import Scraper

LOADING = threading.Lock()  # definitions are evaluated once, and not by each thread
LOOPBACK = "127.0.0.1"
Serve = Annotated[
    int | None, typer.Option(help="Answer on this port; 0 takes a free one.", min=0, max=65_535, show_default=False)
]
Host = Annotated[str | None, typer.Option(help=f"The address to answer on; {LOOPBACK} without it.", show_default=False)]


def metrics_command(serve: Serve = None, host: Host = None, as_json: AsJson = False) -> None:
    """Print the metrics of all pipelines for Prometheus, or serve them.

    With --serve, each request is answered anew, within ten seconds. No pipeline has to run for it, and database or broker
    may be away. There is no login: let only Prometheus reach the port. Press Ctrl-C to end it.
    """
    from lockstep.adapters import prometheus

    if serve is None:
        if host is not None:
            raise typer.BadParameter("is for --serve PORT", param_hint="--host")
        found = scraper().scrape()
        show(found, as_json, lambda: say(prometheus.exposition(lambda: found)[0].decode().rstrip()))
        return
    if host is not None and not host.strip():
        raise typer.BadParameter("names no address", param_hint="--host")
    if as_json:
        raise typer.BadParameter("prints one scrape, and --serve serves many", param_hint="--json")
    folders.root()
    server, thread = prometheus.serve(scraper().scrape, host or LOOPBACK, serve)
    say(f"metrics are at http://{host or LOOPBACK}:{server.server_port}/metrics")
    with suppress(KeyboardInterrupt):
        while thread.is_alive():
            thread.join(1.0)
    server.server_close()


def scraper() -> Scraper:
    """Returns a scraper over this environment's ledger and broker, and the pipelines of the folder."""
    from lockstep.steps.inspect.scrape import Scraper, Sources, scraped_ledger

    return Scraper(Sources(lambda: scraped_ledger(systems.dsn()), systems.surveyed_broker, _dags, _definition))


def _dags() -> dict[str, bool | None]:
    paused: dict[str, bool] = {}
    with suppress(Refusal):  # no address of the ledger: the ledger itself says so
        paused = systems.paused_dags()
    return {name: paused.get(name) for name in folders.pipeline_names()}


def _definition(conn: connection, name: str) -> Pipeline:
    """Returns the definition of the newest attempt, else the folder's, for which a process evaluates its file."""
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger.views import overview

    with transaction(conn, READER) as cur:
        document = overview.newest_definition(cur, name)
    if document:
        with suppress(BadDefinition):  # of another version of Lockstep
            return pipeline_of_document(document)
    with LOADING:
        return folders.load(name).pipeline
