"""Defines where results live outside the ledger's own database, and which guarantee can lead there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.feed.feeds import refuse_feed_elsewhere
from lockstep.core.feed.sends import refuse_odd_send
from lockstep.core.lake.catalogs import Catalog
from lockstep.core.lake.iceberg import Iceberg, catalog_elsewhere, refuse_odd_lake
from lockstep.core.pipeline.guarantees import AtLeastOnce, AtMostOnce, Delivered, Idempotent, PerBatch, PerPartition
from lockstep.core.pipeline.targets import Append, History, Send, Upsert

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.guarantees import Guarantee
    from lockstep.core.pipeline.names import TopicSource
    from lockstep.core.pipeline.targets import Target

STORE_PREFIX = "LOCKSTEP_STORE_"
FOLDER = "FILES"  # LOCKSTEP_STORE_FILES: the folder in which relative paths lie
BEHIND = "_rows"  # ends the name of a table behind a view, which has the target's name
_NAME = re.compile(r"^[A-Z][A-Z0-9_]{0,40}\Z")


@dataclass(frozen=True, slots=True)
class Postgres:
    """Another Postgres for the results.

    Its address stands in `LOCKSTEP_STORE_NAME`, or in the Airflow connection `lockstep_store_name`.
    """

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.match(self.name) or self.name == FOLDER:
            raise BadDefinition(
                f"store: Postgres({self.name!r}): a name in capitals, such as WAREHOUSE, and not {FOLDER}; "
                f"the address stands in the environment, as {STORE_PREFIX}WAREHOUSE"
            )

    @property
    def variable(self) -> str:
        """Returns the environment variable that holds the address."""
        return f"{STORE_PREFIX}{self.name}"

    def __str__(self) -> str:
        return f"store {self.name}"


@dataclass(frozen=True, slots=True)
class Files:
    """A folder of Parquet files, one for each batch and stream. A relative path lies in LOCKSTEP_STORE_FILES."""

    path: str

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path.strip() or ".." in PurePath(self.path).parts:
            raise BadDefinition(f"store: Files({self.path!r}): the path of a folder, without ..")

    @property
    def variable(self) -> str | None:
        """Returns the variable that says where a relative path lies, or None for an absolute path."""
        return None if PurePath(self.path).is_absolute() else f"{STORE_PREFIX}{FOLDER}"

    def __str__(self) -> str:
        return f"files in {self.path}"


Store = Postgres | Files | Catalog


def store_of(targets: Sequence[Target], store: Store | None) -> Store | None:
    """Returns the place of the results: that of the definition, or the catalog elsewhere that a target names."""
    name = catalog_elsewhere(targets)
    if name is None and not isinstance(store, Catalog):
        return store
    if name is None or store not in {None, Catalog(name)}:
        raise BadDefinition("store: a table of the lake says with catalog= where it is: leave store out")
    return Catalog(name)


def require_address(pipeline: str, store: Store | None, stores: Mapping[str, str]) -> None:
    """Refuses to begin if no address of the store is set. `stores` are the addresses by name."""
    if store is None or store.variable is None or stores.get(store.variable.removeprefix(STORE_PREFIX)):
        return
    what = "a folder" if isinstance(store, Files) else "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
    if isinstance(store, Catalog):
        what = """'{"uri": "https://HOST"}', or to the path of a file with such an object"""
    raise Refusal(
        f"{pipeline}: where its {store} is, nobody has said: {store.variable} is not set",
        next_command=f"set {store.variable} to {what}, or under Airflow add the connection {connection_of(store)}",
    )


def connection_of(store: Store) -> str:
    """Returns the Airflow connection that stands for the variable."""
    return (store.variable or "").lower()


def refuse_keys_elsewhere(topic: TopicSource, targets: tuple[Target, ...], store: Store | None) -> None:
    """Refuses keys of several topics in another store, which does not know the topics of its rows."""
    for target in targets if store is not None and not isinstance(topic, str) else ():
        if isinstance(target, Upsert) and target.order_by is None:
            raise BadDefinition(
                f"target.order_by of {target.table}: another store cannot tell topics apart, so a key in two of them "
                "needs a column that says which record is newer"
            )


def refuse_misfit(targets: Sequence[Target], guarantee: Guarantee, store: Store | None) -> None:
    """Refuses a guarantee that cannot be kept for these targets, or in this store, with the reason."""
    for target in targets:
        if isinstance(target, Send):
            refuse_odd_send(target.topic.name, guarantee, store)
        if isinstance(target, History) and (store is not None or isinstance(guarantee, Delivered)):
            raise BadDefinition(
                f"target: History({target.table!r}): a version ends when a later one comes, in one transaction with the "
                "offsets: leave store out, and say guarantee=PerBatch() or PerPartition()"
            )
    refuse_odd_lake(targets, guarantee)
    refuse_feed_elsewhere((target.feed for target in targets), guarantee, store)
    name = f"{type(guarantee).__name__}()"
    if not isinstance(guarantee, PerBatch) and len(targets) > 1:
        raise BadDefinition(
            f"target: {name} brings the results of one target, here are {len(targets)}, and only PerBatch() has one "
            "transaction for them all: make a pipeline of each"
        )
    target = targets[0]
    if isinstance(guarantee, PerPartition) and not isinstance(target, Append | Upsert):
        raise BadDefinition(
            f"target is {type(target).__name__}, and guarantee PerPartition takes Append, History or Upsert: "
            "others need the whole batch in one transaction, as with PerBatch"
        )
    if store is not None and not isinstance(guarantee, Delivered):
        raise BadDefinition(
            f"store: {name} moves results and offsets in one transaction, and no one transaction spans two stores: "
            "say guarantee=Idempotent(), AtLeastOnce() or AtMostOnce(), or leave store out"
        )
    if isinstance(store, Files) and not isinstance(target, Append):
        raise BadDefinition(
            f"target: {type(target).__name__} changes rows by key, and a file that is written stays as it is: "
            "Files() takes Append alone"
        )
    if isinstance(guarantee, Idempotent) and not isinstance(target, Append | Upsert):
        raise BadDefinition(
            f"guarantee: {name} writes results over themselves by key, which {type(target).__name__} cannot: "
            "say Append or Upsert, or guarantee=PerBatch()"
        )
    if isinstance(guarantee, AtLeastOnce | AtMostOnce) and not isinstance(target, Append):
        raise BadDefinition(
            f"guarantee: {name} appends rows without asking for a key, and {type(target).__name__} has one: "
            "say guarantee=Idempotent()"
        )


def rows_table_of(pipeline: Pipeline) -> str | None:
    """Returns the table that target.sql may make instead of the first target. `migrate` then draws the target as its view.

    Returns None where the guarantee or the target does not allow a view.
    """
    target = pipeline.first
    plain = isinstance(target, Append) and not isinstance(target, History) and not isinstance(target.table, Iceberg)
    return target.table + BEHIND if plain and isinstance(pipeline.guarantee, PerBatch) else None
