"""Defines `watch`, which shows a pipeline's progress by partition until it is interrupted."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.adapters import folders
from lockstep.cli.looks.status import say_status
from lockstep.cli.options import Name
from lockstep.cli.output import AsJson, show
from lockstep.context.systems import broker, open_ledger, paused_dags
from lockstep.core.text import printable_line

if TYPE_CHECKING:
    from psycopg2.extensions import connection
    from rich.console import RenderableType

    from lockstep.ledger.views.reading import Document

Every = Annotated[float, typer.Option(help="Seconds between two looks.", min=0.2)]
BAR = 24  # characters of a partition's bar


def watch_command(name: Name, every: Every = 2.0, as_json: AsJson = False) -> None:
    """Show lag and progress as they change, until you press Ctrl-C.

    Without a terminal, and with --json, it shows them once, as `status` does.
    """
    from rich.console import Console
    from rich.live import Live

    from lockstep.steps.inspect.status import status

    folder, console = folders.load(name), Console()

    def ask(conn: connection) -> Document:
        return status(conn, kafka, folder.pipeline, datetime.now(UTC), dag_paused=dag_paused, folder=folder)

    with open_ledger() as conn, suppress(KeyboardInterrupt):
        kafka, dag_paused = broker(), paused_dags().get(name)
        seen = ask(conn)
        if as_json or not console.is_terminal:
            show(seen, as_json, lambda: say_status(seen))
            return
        with Live(picture(seen, {}), console=console, refresh_per_second=4) as live:
            while True:
                began = time.monotonic()
                time.sleep(every)
                before, seen = seen, ask(conn)
                live.update(picture(seen, rates(before, seen, time.monotonic() - began)))


def rates(before: Document, after: Document, seconds: float) -> dict[str, tuple[float, float]]:
    """Returns, by topic and partition, the offsets per second that were committed, and those that came, between two looks."""
    then = {_where(s): s for s in before["streams"]}
    return {
        _where(s): (
            max(0, s["position"] - old["position"]) / seconds,
            max(0, (s["stable_end"] or 0) - (old["stable_end"] or 0)) / seconds,
        )
        for s in after["streams"]
        if (old := then.get(_where(s))) and seconds > 0
    }


def _where(stream: Document) -> str:
    return f"{stream['topic']}-{stream['partition']}"


def picture(document: Document, speed: dict[str, tuple[float, float]]) -> RenderableType:
    """Draws a line per partition: the committed share of the log's records, the lag, and the rates of both sides."""
    from rich.table import Table
    from rich.text import Text

    title = Text(printable_line(_title(document, speed)), "table.title")  # a text alone would be read as markup
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title=title, title_justify="left")
    for column in ("partition", "committed of what the log has", "lag>", "out/s>", "in/s>", "left>"):
        table.add_column(column.removesuffix(">"), justify="right" if column.endswith(">") else "left", no_wrap=True)
    of_topics = len({stream["topic"] for stream in document["streams"]}) > 1
    for stream in document["streams"]:
        out, into = speed.get(_where(stream), (0.0, 0.0))
        lag = stream["lag_records"]
        left = f"{lag / (out - into):.0f} s" if lag and out > into else "-"
        cells = (f"{lag:,}" if lag is not None else "-", f"{out:,.0f}", f"{into:,.0f}", left)
        name = _where(stream) if of_topics else str(stream["partition"])
        table.add_row(name, _bar(stream), *(Text(each) for each in cells))
    return table


def _title(document: Document, speed: dict[str, tuple[float, float]]) -> str:
    lags = [stream["lag_records"] for stream in document["streams"] if stream["lag_records"] is not None]
    said = [f"{document['pipeline']} {document['health']}"]
    if document["under_way"]:
        said.append(f"batch {', '.join(map(str, document['under_way']))} under way")
    said.append(f"{sum(lags):,} waiting" if lags else "no stream yet")
    if speed:
        said.append(f"{sum(out for out, _ in speed.values()):,.0f}/s")
    said += [condition["message"] for condition in document["conditions"][:1]]
    return ", ".join(said)


def _bar(stream: dict[str, Any]) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    if stream["stable_end"] is None:
        return Text("the log is not the same log any more", style="red")
    whole = max(1, stream["stable_end"] - stream["log_start"])
    return ProgressBar(total=whole, completed=max(0, stream["position"] - stream["log_start"]), width=BAR)
