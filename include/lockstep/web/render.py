"""Pages from templates, with the few ways in which numbers and times are written."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lockstep.web.headers import nonce

if TYPE_CHECKING:
    from datetime import datetime

NOTHING = "\N{EN DASH}"
TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def page(template: str, **values: Any) -> str:
    """A whole page."""
    return writable(TEMPLATES.get_template(template).render(**values))


def writable(text: str) -> str:
    """Text that UTF-8 can hold: half a surrogate pair is written out."""
    return text.encode(errors="backslashreplace").decode()


def number(value: int | None) -> str:
    """`1,234,567`; a dash where nothing is known."""
    return NOTHING if value is None else f"{value:,}"


def moment(at: datetime | None) -> str:
    """In UTC, to the second."""
    return f"{at.astimezone(UTC).isoformat(' ', 'seconds')[:19]} UTC" if at else "not yet"


def minute(at: datetime | None) -> str:
    """In UTC, to the minute; a dash where nothing is known."""
    return at.strftime("%Y-%m-%d %H:%M UTC") if at else NOTHING


def seconds(value: float | None) -> str:
    """`0.4 s`, `12 s`, `3 min`, `5 h`, `2 d`."""
    if value is None:
        return NOTHING
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if value >= 2 * size:
            return f"{value / size:.0f} {unit}"
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"  # noqa: PLR2004 - two digits are enough


TEMPLATES.globals["nonce"] = nonce
TEMPLATES.filters.update(number=number, moment=moment, minute=minute, seconds=seconds)
