"""Turns a flat record into a line of COPY, as the Python peer does."""

from __future__ import annotations

import msgspec

from peers.copy_text import escaped
from peers.orders import NAMES
from peers.workload import ORIGIN

COLUMNS = (*NAMES, *ORIGIN)


class Order(msgspec.Struct, gc=False):
    """A record's value, typed, so that a record of another shape is a reject."""

    id: str
    seq: int
    part: int
    customer: str
    amount: float  # exact up to 15 digits, and the column has twelve
    quantity: int
    paid: bool
    placed_at: str


DECODE = msgspec.json.Decoder(Order).decode


def line_of(order: Order, partition: int, offset: int) -> str:
    """Returns a line of COPY's text format, with the record's origin."""
    return (
        f"{escaped(order.id)}\t{order.seq}\t{order.part}\t{escaped(order.customer)}\t{order.amount}\t{order.quantity}\t"
        f"{order.paid}\t{escaped(order.placed_at)}\t{partition}\t{offset}\n"
    )
