"""Decodes Debezium's change records: which change a record is, and what its values mean."""
