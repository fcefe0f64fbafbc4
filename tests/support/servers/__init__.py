"""Runs real servers, clocks and networks for tests."""
