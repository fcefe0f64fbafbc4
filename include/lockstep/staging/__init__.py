"""Stages a Spark task's rows in the attempt's own table, and reports the records that the task read and wrote."""
