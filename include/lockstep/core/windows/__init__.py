"""Holds event time as values: the column, the windows of a moment, and the durations between them."""
