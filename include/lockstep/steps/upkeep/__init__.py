"""Removes what no run and no reader needs any more."""
