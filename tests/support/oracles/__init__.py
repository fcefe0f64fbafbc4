"""Judges from outside. An oracle shares no code with what it judges."""
