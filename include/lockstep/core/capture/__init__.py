"""Holds what is known of change data capture: the format of change records, and what it does not go with."""
