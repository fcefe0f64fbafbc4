"""Moves event time on, shows the windows that it has passed, and admits records that came too late for them."""
