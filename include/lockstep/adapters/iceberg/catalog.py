"""Speaks to an Iceberg REST catalog elsewhere. Each answer is awaited for a time, and each refusal is one line."""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    OAuthError,
    RESTError,
    ServerError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TooManyRequestsError,
    UnauthorizedError,
    ValidationError,
)
from requests import RequestException

from lockstep.adapters.iceberg.schema import METRICS, new_schema
from lockstep.core.errors import LakeMoved, Refusal, Unreachable
from lockstep.core.lake.store_words import store_answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from requests import Session

    from lockstep.core.lake.catalogs import CatalogSettings
    from lockstep.core.lake.iceberg import Iceberg
    from lockstep.core.pipeline.columns import Column

NAMES_CODE = re.compile(r"impl\Z|^auth\b")  # properties by which a catalog could have code of its choice run here
HTML_PAGE = re.compile(r"<\s*(!doctype|html|head|body)\b", re.IGNORECASE)
_LOGIN = (UnauthorizedError, AuthorizationExpiredError, ForbiddenError, OAuthError)
_AWAY = (ServerError, ServiceUnavailableError, TooManyRequestsError, CommitStateUnknownException, RequestException)
_REFUSED = (*_LOGIN, NoSuchTableError, NoSuchNamespaceError)  # certainly not done


class OpenCatalog:
    """A catalog that has told its configuration. It has a login of its own each time it is opened."""

    def __init__(self, settings: CatalogSettings) -> None:
        self.settings = settings
        with self.answers("", where="is asked for its configuration"):
            self._rest = _Rest(settings)

    def load(self, pipeline: str, table: Iceberg) -> Table:
        """Returns the table as readers see it now. Raises `Refusal` for a missing one."""
        with self.answers(pipeline, table):
            return self._rest.load_table((table.namespace, table.name))

    def make(self, pipeline: str, table: Iceberg, columns: Sequence[Column]) -> None:
        """Makes the namespace and the table, if they are not there."""
        identifier = (table.namespace, table.name)
        with self.answers(pipeline, table):
            if self._rest.table_exists(identifier):
                return
            try:
                if not self._rest.namespace_exists((table.namespace,)):
                    self._rest.create_namespace((table.namespace,))
            except NamespaceAlreadyExistsError:
                pass
            try:
                self._rest.create_table(identifier, new_schema(columns), properties=METRICS)
            except TableAlreadyExistsError:  # by another process, or there is a view
                self._rest.load_table(identifier)

    def commit(
        self,
        pipeline: str,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> None:
        """Sends one commit, once. pyiceberg's own way would send it again, on another snapshot.

        Raises `LakeMoved` if the catalog has refused it by a requirement, and `Unreachable` if its outcome is not known.
        """
        name = ".".join(table.name())
        try:
            with _quiet():
                self._rest.commit_table(table, requirements, updates)
        except CommitFailedException as moved:
            raise LakeMoved(f"{name} of {self._called} has been moved: {self._said(moved)}") from None
        except _REFUSED:
            with self.answers(pipeline, name):
                raise
        except Exception as error:  # noqa: BLE001 - whatever it says, the commit may be there
            raise Unreachable(f"{name} of {self._called}: {self._said(error)}") from None

    @contextmanager
    def answers(self, pipeline: str, table: str = "", where: str = "") -> Iterator[None]:
        """Turns what a catalog answers, or does not, into one line without a secret."""
        what = " ".join(filter(None, (self._called, where or f"is asked for {table}")))
        correct = f"correct {self.settings.variable}"
        try:
            with _quiet():
                yield
        except (NoSuchTableError, NoSuchNamespaceError):
            raise Refusal(
                f"{pipeline}: {self._called} has no table {table}: there is none, or a view has its name",
                next_command=f"lockstep migrate {pipeline}",
            ) from None
        except _LOGIN as error:
            raise Refusal(f"{what} and refuses the login: {self._said(error)}", next_command=correct) from None
        except _AWAY as error:
            raise Unreachable(f"{what} and is away: {self._said(error)}", next_command=correct) from None
        except (RESTError, NotImplementedError) as error:
            raise Refusal(f"{what} and refuses: {self._said(error)}", next_command=correct) from None
        except (ValueError, KeyError) as error:
            why = f"{what} and answers what no Iceberg REST catalog does: {self._said(error)}"
            raise Refusal(why, next_command=correct) from None

    @contextmanager
    def store_answers(self, pipeline: str, what: str) -> Iterator[None]:
        """Turns what the store of a table refuses, or has not, into one line without a secret of the catalog."""
        correct = f"correct {self.settings.variable}, or what the catalog lends of its store"
        try:
            yield
        except FileNotFoundError as error:
            raise Refusal(
                f"{pipeline}: {what}: a file is missing: {self._said(error)}",
                next_command="put that file back, or take it out of the table by Spark or Trino",
            ) from None
        except (OSError, pa.ArrowException) as error:
            said, answer = self._said(error), store_answer(str(error))
            kind = Refusal if answer and not answer.away else Unreachable
            raise kind(f"{pipeline}: {what}: {answer.why if answer else said}", next_command=correct) from None
        except (ValueError, EOFError, ValidationError) as error:
            raise Refusal(
                f"{pipeline}: {what}: this is no metadata of Iceberg: {self._said(error)}",
                next_command=f"look at {what} by Spark or Trino",
            ) from None

    @property
    def _called(self) -> str:
        return f"catalog {self.settings.name}"

    def _said(self, error: Exception) -> str:
        text = str(error) or type(error).__name__
        return "a page of HTML" if HTML_PAGE.search(text) else self.settings.without_secrets(text)


class _Rest(RestCatalog):
    """pyiceberg's client, which waits for no answer for ever, and runs no code that a catalog names."""

    def __init__(self, settings: CatalogSettings) -> None:
        self._patience = settings.patience
        super().__init__(settings.name, **settings.properties)
        self.properties["snapshot-loading-mode"] = "all"  # the ancestry is looked through
        _refuse_code(self.properties)

    def _create_session(self) -> Session:
        session: Session = super()._create_session()
        session.request = partial(session.request, timeout=self._patience)  # type: ignore[method-assign]
        return session

    def _load_file_io(self, properties: Any = None, location: str | None = None) -> Any:
        _refuse_code(properties or {})
        return super()._load_file_io(properties or {}, location)


def _refuse_code(properties: Any) -> None:
    if found := next((name for name in properties if NAMES_CODE.search(name)), None):
        raise Refusal(
            f"the property {found} of the catalog, or of its table, would run code of another's choice here",
            next_command=f"take {found} out of the catalog's configuration, and of the table's properties",
        )


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyiceberg warns of settings that are as its servers want them
        yield
