"""Decodes Avro, record by record, by the schema that wrote it."""
