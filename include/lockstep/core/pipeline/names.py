"""Refuses names that no pipeline, table, column or function can have.

A pipeline's name is a folder, a Python module and two DAG ids at once.
"""

from __future__ import annotations

import keyword
import re
import unicodedata

from lockstep.core.errors import BadDefinition, quoted
from lockstep.core.feed.feeds import SCHEMA as FEED_SCHEMA
from lockstep.core.feed.sends import SEND_SCHEMA
from lockstep.core.pipeline.columns import IDENTIFIER

SUFFIX = "_history"  # of a history's DAG, behind the pipeline's name
MOST_NAME_LENGTH = 63
NAME_SUFFIX = "_records"  # what a word of Python is given to become a name
_OTHERS = re.compile(r"[^a-z0-9]+")
_ENDINGS = re.compile(rf"({SUFFIX}|_)+\Z")


def refuse_bad_name(name: str) -> None:
    """Refuses a name that is no identifier, a name of Python's, or the DAG id of another pipeline's history."""
    if not IDENTIFIER.match(name):
        raise _bad(name, f"lower case letters, digits and _, no digit first, {MOST_NAME_LENGTH} at most")
    if keyword.iskeyword(name):
        raise _bad(name, "a word of Python, which no module can have as its name")
    if name.startswith("__"):
        raise _bad(name, "names that begin with __ are Python's own")
    if name.endswith(SUFFIX):
        raise _bad(name, f"{SUFFIX} is the ending of a history's DAG, here of {name.removesuffix(SUFFIX)!r}")


def good_name(name: str) -> str:
    """Returns a similar name that a pipeline can have."""
    plain = unicodedata.normalize("NFKD", name[:MOST_NAME_LENGTH]).encode("ascii", "ignore").decode().lower()
    good = _OTHERS.sub("_", plain).strip("_")
    good = good if good[:1].isalpha() else f"p_{good}"
    good = _ENDINGS.sub("", good[: MOST_NAME_LENGTH - len(NAME_SUFFIX)])
    return f"{good}{NAME_SUFFIX}" if keyword.iskeyword(good) or good == "p" else good


def refuse_bad_key(key: tuple[str, ...], *others: str) -> None:
    """Refuses key columns, and others beside them, that are no names of columns, or stand there twice."""
    if key == ():
        raise BadDefinition("target.key is empty: name at least one column")
    if not isinstance(key, tuple):
        raise BadDefinition("target.key must be a tuple of column names, such as ('order_id',)")
    for name in (*key, *others):
        if not isinstance(name, str) or not IDENTIFIER.match(name):
            raise BadDefinition(f"target: {name!r} is not a column name")
        if key.count(name) > 1:
            raise BadDefinition(f"target.key: {name!r} is there twice")


def refuse_sharing_names(names: tuple[str, ...]) -> None:
    """Refuses other pipelines of a shared table that are no names of pipelines."""
    if not isinstance(names, tuple):
        raise BadDefinition("target.shared_with must be a tuple of pipeline names, such as ('orders_eu',)")
    for name in names:
        if not isinstance(name, str) or not IDENTIFIER.match(name):
            raise BadDefinition(f"target.shared_with: {name!r} is not the name of a pipeline")
        if names.count(name) > 1:
            raise BadDefinition(f"target.shared_with: {name!r} is there twice")


def refuse_bad_transform(name: str | None) -> None:
    """Refuses the name of a transform that is no name of a function."""
    if name is not None and not (isinstance(name, str) and name.isidentifier()):
        raise BadDefinition(f"target.transform {name!r}: it must be the name of a function in transform.py")


def refuse_bad_table(table: str) -> None:
    """Refuses a table that is not `schema.table`, or lies in a schema of the ledger."""
    if not isinstance(table, str):
        raise BadDefinition(f"target.table is {table!r}: it must be schema.table, in lower case")
    schema, dot, name = table.partition(".")
    if not dot or not IDENTIFIER.match(schema) or not IDENTIFIER.match(name):
        raise BadDefinition(f"target.table {table!r}: it must be schema.table, in lower case")
    if schema in {"lockstep", "lockstep_staging", FEED_SCHEMA, SEND_SCHEMA}:
        raise BadDefinition(f"target.table {table!r}: the schema {schema} is the ledger's own")


def _bad(name: str, why: str) -> BadDefinition:
    return BadDefinition(f"name {quoted(name)}: {why}", next_command=f"lockstep new {good_name(name)} --topic TOPIC")
