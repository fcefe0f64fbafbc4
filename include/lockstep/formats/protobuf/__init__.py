"""Decodes Protobuf, record by record, by the schema that wrote it."""
