"""Compares rows of targets with what the log, a batch or another target says."""
