"""Defines a workload: the records of a topic, the tables that they go to, and the rows that must be there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from peers.contender import Place

ORIGIN = ("_stream", "_offset")  # a peer's partition and offset
Record = tuple[str, str | bytes, int]  # key, value, partition


@dataclass(frozen=True, slots=True)
class Output:
    """One table of a workload, and the query of the rows that must be in it.

    `expected` and `newest` are queries with `{topic}`. `newest` is the one for a table that keeps the newest record of
    each key. `by` names a column without repeats or nulls, and `names` the columns that are compared. `suffix` ends the
    table's name. `transform` names the function that makes its rows, of the workload's file of transforms.
    """

    ddl: str
    names: tuple[str, ...]
    by: str
    expected: str
    newest: str = ""
    suffix: str = ""
    transform: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """Records by number and partition, with the code that expects their rows.

    `topic` is the part of the topic's name that these records share. `schema` is the definition's, and `json` has more
    arguments of its format. One of `bad_in` records must be rejected, or none. `weights` are the shares of the
    partitions, which are equal if there are none. `lines` is the module by which Python makes COPY's lines. `transforms`
    is the file of the functions that make rows.
    """

    name: str
    topic: str
    schema: str
    outputs: tuple[Output, ...]
    records: Callable[[int, int], Iterator[Record]]
    expect: Callable[[Place, str, int, int], None]
    json: str = ""
    bad_in: int = 0
    weights: tuple[int, ...] = ()
    lines: str = ""
    transforms: str = ""

    @property
    def first(self) -> Output:
        """Returns the only table, or the first of several."""
        return self.outputs[0]

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the columns of the schema, in its order."""
        return names_of(self.schema)

    def rejects(self, records: int) -> int:
        """Returns how many of so many records must be rejected."""
        return records // self.bad_in if self.bad_in else 0

    def shares(self, partitions: int, number: int) -> list[tuple[int, ...]]:
        """Returns the partitions of each of so many processes or connections, with as equal shares as can be."""
        return balanced(self.weights or (1,) * partitions, number)


def names_of(schema: str) -> tuple[str, ...]:
    """Returns the names of a schema's columns. Columns are separated by a comma and a space."""
    return tuple(column.split()[0] for column in schema.split(", "))


def balanced(weights: Sequence[int], number: int) -> list[tuple[int, ...]]:
    """Gives each weight, the largest first, to the share that is smallest so far. Returns the indexes of each share."""
    shares: list[list[int]] = [[] for _ in range(number)]
    for index in sorted(range(len(weights)), key=lambda each: -weights[each]):
        min(shares, key=lambda share: sum(weights[each] for each in share)).append(index)
    return [tuple(sorted(share)) for share in shares]
