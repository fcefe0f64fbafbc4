"""Lets Airflow's connection form test a schema registry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from lockstep.adapters.airflow.connections import registry_variables
from lockstep.core.errors import Refusal
from lockstep.core.registry import registry

if TYPE_CHECKING:
    from lockstep.core.registry import Registry


class RegistryHook(BaseHook):
    """A connection to a schema registry, with the options that a run would use."""

    conn_name_attr = "registry_conn_id"
    default_conn_name = "lockstep_registry"
    conn_type = "lockstep_registry"
    hook_name = "Schema registry (Lockstep)"

    def __init__(self, registry_conn_id: str = default_conn_name, **options: Any) -> None:
        super().__init__(**options)
        self.registry_conn_id = registry_conn_id

    def get_conn(self) -> Registry:
        """Returns the registry, not asked anything yet. Raises `BadDefinition` that names an option that is refused."""
        address, options = registry_variables(self.get_connection(self.registry_conn_id))
        return registry(address, options, lambda file: Path(file).read_text(encoding="utf-8"))

    def test_connection(self) -> tuple[bool, str]:
        """Returns whether the registry answers, and a line for the form."""
        from lockstep.formats.avro.schemas import schemas  # noqa: PLC0415 - the client is slow to import

        try:
            found = self.get_conn()
            schemas(found).require_answer()
        except (Refusal, OSError) as error:
            return False, str(error)
        return True, f"{found.shown} answers"
