"""Renders pages from templates, and formats numbers and times."""

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
    """Renders a whole page."""
    return writable(TEMPLATES.get_template(template).render(**values))


def writable(text: str) -> str:
    """Escapes half surrogate pairs, so that UTF-8 can hold the text."""
    return text.encode(errors="backslashreplace").decode()


def number(value: int | None) -> str:
    """Formats as `1,234,567`, or as a dash if unknown."""
    return NOTHING if value is None else f"{value:,}"


def moment(at: datetime | None) -> str:
    """Formats a time in UTC, to the second."""
    return f"{at.astimezone(UTC).isoformat(' ', 'seconds')[:19]} UTC" if at else "not yet"


def minute(at: datetime | None) -> str:
    """Formats a time in UTC, to the minute, or as a dash if unknown."""
    return at.strftime("%Y-%m-%d %H:%M UTC") if at else NOTHING


def seconds(value: float | None) -> str:
    """Formats as `0.4 s`, `12 s`, `3 min`, `5 h` or `2 d`."""
    if value is None:
        return NOTHING
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if value >= 2 * size:
            return f"{value / size:.0f} {unit}"
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"  # noqa: PLR2004 - two digits are enough


TEMPLATES.globals["nonce"] = nonce
TEMPLATES.filters.update(number=number, moment=moment, minute=minute, seconds=seconds)
