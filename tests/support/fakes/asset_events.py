"""Keeps asset events as Airflow's API server does: one for each outlet of a task that succeeds, also for an untold one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow.sdk.execution_time.context import OutletEventAccessors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Asset


class Events:
    """The events of one asset, as a task finds them: the newest first, and at most so many."""

    def __init__(self, extras: Sequence[dict[str, Any]]) -> None:
        self.extras = extras

    def ascending(self, *, ascending: bool) -> Events:
        assert not ascending
        return Events(self.extras[::-1])

    def limit(self, most: int) -> Events:
        return Events(self.extras[:most])

    def __len__(self) -> int:
        return len(self.extras)

    def __getitem__(self, place: int) -> SimpleNamespace:
        return SimpleNamespace(extra=self.extras[place])


class AssetEvents:
    """The events of all assets by name, the oldest first, and the context of a task that adds to them."""

    def __init__(self) -> None:
        self.extras: dict[str, list[dict[str, Any]]] = {}
        self.begin(())

    def begin(self, outlets: Sequence[Asset]) -> None:
        """Begins a try of a task with these outlets."""
        self.task = SimpleNamespace(outlets=list(outlets))
        self.told = OutletEventAccessors()

    def context(self) -> dict[str, Any]:
        """Returns what a task finds in its context."""
        return {"ti": SimpleNamespace(task=self.task), "outlet_events": self.told, "inlet_events": self}

    def __getitem__(self, asset: Asset) -> Events:
        return Events(self.extras.get(asset.name, []))

    def succeed(self) -> None:
        """Ends the try. Airflow 3 adds an event for each outlet, with an empty extra where the task has told none."""
        for asset in self.task.outlets:
            self.extras.setdefault(asset.name, []).append(dict(self.told[asset].extra))
