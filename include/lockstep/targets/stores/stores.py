"""Finds the place of a pipeline's results, from its definition and from the addresses that are set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters.connection.options import options_of
from lockstep.adapters.postgres import Place
from lockstep.core.errors import Refusal
from lockstep.core.lake.catalogs import Catalog, catalog_settings
from lockstep.core.pipeline.definition import Files, Postgres
from lockstep.core.pipeline.stores import FOLDER, require_address
from lockstep.targets.stores.warehouse import Warehouse, own_database

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.targets.stores.delivery import Results


def results_of(pipeline: Pipeline, dsn: str, stores: Mapping[str, str]) -> Results:
    """Returns the place of the results, without connecting. `dsn` is the ledger's, `stores` are addresses by name."""
    require_address(pipeline.name, pipeline.store, stores)
    match pipeline.store:
        case None:
            return own_database(dsn)
        case Postgres(name):
            place = Place(str(pipeline.store), pipeline.store.variable, f"look at {pipeline.store.variable}")
            return Warehouse(stores[name], place)
        case Files(path):
            from lockstep.targets.stores.files import Folder  # noqa: PLC0415 - pyarrow takes a while, and few need it

            return Folder(Path(stores.get(FOLDER, "")) / path)
        case Catalog() as catalog:
            return _elsewhere(pipeline, catalog, stores[catalog.variable])


def _elsewhere(pipeline: Pipeline, catalog: Catalog, given: str) -> Results:
    settings = catalog_settings(catalog, options_of(catalog.variable, given))
    try:
        from lockstep.targets.stores.elsewhere import LakeElsewhere  # noqa: PLC0415 - the extra may be missing
    except ModuleNotFoundError as error:
        raise Refusal(
            f"{pipeline.name}: {catalog} needs the package {error.name}",
            next_command="pip install 'lockstep-kafka[lake]'",
        ) from None
    return LakeElsewhere(settings)
