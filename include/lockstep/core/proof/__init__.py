"""Counts records and defines the results of a proof."""
