"""Reads and writes progress: functions over a cursor. The transaction, and its role, belong to the caller."""
