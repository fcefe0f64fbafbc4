"""Turns a record of the second workload into a line of COPY, as the Python peer does."""

from __future__ import annotations

from decimal import Decimal  # noqa: TC003 - msgspec reads annotations when the program runs

import msgspec

from peers.copy_text import NULL, escaped
from peers.real.events import SCHEMA
from peers.workload import ORIGIN, names_of

COLUMNS = (*names_of(SCHEMA), *ORIGIN)


class Event(msgspec.Struct, gc=False):
    """A record's value, typed, so that a record of another shape is a reject. A field that it does not name is ignored."""

    id: str
    customer: str
    app_version: str
    url: str
    user_agent: str
    title: str
    amount: float  # exact up to 15 digits, and the column has twelve
    price: Decimal
    rate: Decimal
    occurred_at: str
    quantity: int
    account: int
    rating: float
    distance: float
    paid: bool
    returned: bool
    express: bool
    is_test: bool
    ip: str | None = None
    note: str | None = None
    city: str | None = None
    shipped_at: str | None = None
    delivered_on: str | None = None
    points: int | None = None
    gift: bool | None = None


DECODE = msgspec.json.Decoder(Event).decode


def line_of(event: Event, partition: int, offset: int) -> str:
    """Returns a line of COPY's text format, with the record's origin."""
    return (
        f"{escaped(event.id)}\t{escaped(event.customer)}\t{_text(event.ip)}\t{escaped(event.app_version)}\t"
        f"{escaped(event.url)}\t{escaped(event.user_agent)}\t{escaped(event.title)}\t{_text(event.note)}\t"
        f"{_text(event.city)}\t{event.amount}\t{event.price}\t{event.rate}\t{escaped(event.occurred_at)}\t"
        f"{_text(event.shipped_at)}\t{_text(event.delivered_on)}\t{event.quantity}\t"
        f"{NULL if event.points is None else event.points}\t{event.account}\t{event.rating}\t{event.distance}\t"
        f"{event.paid}\t{NULL if event.gift is None else event.gift}\t{event.returned}\t{event.express}\t"
        f"{event.is_test}\t{partition}\t{offset}\n"
    )


def _text(text: str | None) -> str:
    return NULL if text is None else escaped(text)
