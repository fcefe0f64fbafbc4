"""Decides the offsets of the next batch, of the live lane or of a fill or replay."""
