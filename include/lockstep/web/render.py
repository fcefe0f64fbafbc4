"""Renders pages from templates, and formats numbers and times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lockstep.core.states import BatchState
from lockstep.web.headers import nonce
from lockstep.web.zone import stamp, zone_name

if TYPE_CHECKING:
    from datetime import datetime

NO_VALUE = "\N{EN DASH}"
TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def page(template: str, **values: Any) -> str:
    """Renders a whole page."""
    return writable(TEMPLATES.get_template(template).render(**values))


def writable(text: str) -> str:
    """Escapes half surrogate pairs, so that UTF-8 can hold the text."""
    return text.encode(errors="backslashreplace").decode()


def number(value: int | None) -> str:
    """Formats as `1,234,567`, or as a dash if unknown."""
    return NO_VALUE if value is None else f"{value:,}"


def moment(at: datetime | None) -> str:
    """Formats a time in the reader's zone, to the second."""
    return stamp(at) if at else "not yet"


def minute(at: datetime | None) -> str:
    """Formats a time in the reader's zone, to the minute, or as a dash if unknown."""
    return stamp(at, "minutes") if at else NO_VALUE


def seconds(value: float | None) -> str:
    """Formats as `0 s`, `0.4 s`, `12 s`, `3 min`, `5 h` or `2 d`."""
    if value is None:
        return NO_VALUE
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if value >= 2 * size:
            return f"{value / size:.0f} {unit}"
    return f"{value:.1f} s" if 0 < value < 10 else f"{value:.0f} s"  # noqa: PLR2004 - two digits are enough


def size(value: int | None) -> str:
    """Formats bytes as `0`, `1.5 KiB` or `2.0 GiB`, or as a dash if unknown."""
    if value is None:
        return NO_VALUE
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if value >= 1024**power:
            return f"{value / 1024**power:,.1f} {unit}"
    return f"{value} B" if value else "0"


def rate(batch: Any) -> int | None:
    """Returns the rows that a committed batch has written per second, from plan to commit."""
    return round(batch.written / batch.seconds) if batch.state == BatchState.COMMITTED and batch.seconds else None


def holder(owner: str) -> str:
    """Formats a holder of leases that is no task: `pid 18400 on vm`. Others stay as they are."""
    host, pid, *_ = [*owner.split("/"), ""]
    return f"pid {pid} on {host}" if pid.isdigit() else owner


TEMPLATES.globals.update(nonce=nonce, zone=zone_name)
TEMPLATES.filters.update(
    number=number, moment=moment, minute=minute, seconds=seconds, size=size, rate=rate, holder=holder
)
