"""Commits each range of a batch by itself, in the task that reads it: the sink of `PerPartition`."""
