"""Decodes JSON: by columns with Arrow, by Spark, or record by record."""

# Beside raw records whose head is off: their JSON, the text of a tombstone's key, and why a head is refused.
BODY, PLAIN_KEY, HEAD_FAULT = "_body", "_plain_key", "_head_fault"
