"""Defines feeds of tables, the topics that they are sent to, and where a relay goes on."""
