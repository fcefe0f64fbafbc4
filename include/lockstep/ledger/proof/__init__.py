"""Reads what `verify` and certificates compare."""
