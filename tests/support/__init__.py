"""Helps tests: real servers, fakes, oracles, scenes to begin in and inputs to try."""
