"""Writes the SVG of a picture's blocks. A template would do it in ten times the time: a page has a thousand of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.states import CoverageKind
from lockstep.ledger.views.picture import HOLE, PLANNED
from lockstep.web.render import moment, number

if TYPE_CHECKING:
    from lockstep.ledger.views.picture import Block
    from lockstep.web.pictures.drawing import Placed


def block_svg(placed: Placed, nearer: str, batches: str, *, by_age: bool) -> str:
    """Returns a block's rectangle with its words, within a link to what it stands for.

    `nearer` is the address of a closer look up to its first edge, and `batches` that of the batches. All that a block
    holds are numbers, times and words of our own.
    """
    block = placed.block
    y = f' y="{placed.y}"' if placed.y else ""
    shown = (
        f'<rect class="{_classes(placed, by_age=by_age)}" x="{placed.x}" width="{placed.width}"{y} height="{placed.height}">'
        f"<title>[{number(block.from_offset)}, {number(block.until_offset)}) {_words(block)}{placed.times}</title></rect>"
    )
    if block.dense:
        return f'<a href="{nearer}{placed.edges[0]}&amp;until={placed.edges[1]}">{shown}</a>'
    return f'<a href="{batches}{block.batch_id}">{shown}</a>' if block.batch_id else shown


def _classes(placed: Placed, *, by_age: bool) -> str:
    block = placed.block
    name = PLANNED if block.kind == PLANNED else block.lane or block.kind
    if by_age and block.kind == CoverageKind.BATCH:
        return f"{name} age{placed.age}"
    return f"{name} dense" if block.dense else name


def _words(block: Block) -> str:
    if block.dense:
        return f"many batches{f', {block.lane}' if block.lane else ''}; look closer"
    if block.kind == PLANNED:
        return f"batch {block.batch_id}, {block.lane}, planned: not committed yet"
    if block.batch_id:
        return f"batch {block.batch_id}, {block.lane}, {moment(block.committed_at)}"
    return "a hole: nobody covers it" if block.kind == HOLE else block.kind
