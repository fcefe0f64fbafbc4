"""Makes records, settings and statements that nobody should trust."""
