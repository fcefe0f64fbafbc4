"""Holds the two choices of an engine, as tests make them."""

from __future__ import annotations

from lockstep.core.planning.routes import Route, Way

IN_PROCESS, BY_SPARK = Route(Way.PROCESS, "a test"), Route(Way.SPARK, "a test")
