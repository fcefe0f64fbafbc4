"""Moves tables of the lake together with the offsets."""
