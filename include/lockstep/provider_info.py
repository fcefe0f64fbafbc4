"""Tells Airflow what the package brings: a connection type and links of tasks. Imports nothing, as Airflow asks often."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Returns the package's entry for `airflow providers`, which the entry point `apache_airflow_provider` names."""
    links = ("BatchLink", "OneTaskLink", "HistoryLink", "DifferenceLink")
    return {
        "package-name": "lockstep-kafka",
        "name": "Lockstep",
        "description": "Kafka to Postgres in gap-checked batches: results and offsets commit in one transaction.",
        "connection-types": [
            {
                "connection-type": "lockstep_registry",
                "hook-class-name": "lockstep.web.registry_hook.RegistryHook",
                "hook-name": "Schema registry (Lockstep)",
                "ui-field-behaviour": {
                    "relabeling": {"schema": "http or https"},
                    "placeholders": {
                        "host": "registry.example",
                        "port": "8081",
                        "schema": "https",
                        "extra": '{"ssl.ca.location": "/etc/ssl/registry.pem"}',
                    },
                },
            }
        ],
        "extra-links": [f"lockstep.airflow.link.{link}" for link in links],
    }
