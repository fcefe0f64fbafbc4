"""Staging: how a Spark task's rows reach the attempt's own table, and what the task says it has read and written."""
