from __future__ import annotations

import pytest

from here import Here


@pytest.fixture
def here(drill):
    here = Here(drill)
    yield here
    here.at.close()
