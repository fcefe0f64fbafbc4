"""Holds the two choices of an engine, as tests make them."""

from __future__ import annotations

from lockstep.core.planning.routes import EngineChoice, Way

IN_PROCESS, BY_SPARK = EngineChoice(Way.PROCESS, "a test"), EngineChoice(Way.SPARK, "a test")
