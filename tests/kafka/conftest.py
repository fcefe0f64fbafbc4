from __future__ import annotations

from typing import Any

import pytest

from support.oracles.verified import Verified
from support.scenes.here import Here


@pytest.fixture
def here(drill):
    here = Here(drill)
    yield here
    here.at.close()


@pytest.fixture
def elsewhere(here, topic):
    """Returns `elsewhere(**settings)`, which lets the drill read another, empty topic of one partition."""

    def point(name: str | None = None, **settings: Any) -> Here:
        name = name or topic(partitions=1, **settings)
        here.rewrite(here.drill.topic, name)
        here.drill.topic = name
        return here

    return point


@pytest.fixture
def verified(here, postgres):
    """Returns the drill, to be verified. Its 150 records are not read yet."""
    return Verified(here, postgres)
