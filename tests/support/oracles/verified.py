"""Verifies a drill, and spoils its rows where no guard looks."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2

from lockstep.core.proof.extent import conclusion, proofs
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.proof.verify import verify

if TYPE_CHECKING:
    from lockstep.core.proof.verification import PromiseCheck
    from support.scenes.here import Here

COORDINATES = "_stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null"


class Details(dict[str, str]):
    """The details of failed checks. The other checks are left out."""

    def __missing__(self, name: str) -> str:
        return ""


class Verified:
    """The drill's pipeline with a target of the test's choice. `superuser` is the server's DSN."""

    def __init__(self, here: Here, superuser: str) -> None:
        self.here = here
        self._dsn = superuser.rpartition("/")[0] + "/" + here.drill.dsn.rpartition("/")[2]

    def into(self, target: str, columns: str, key: str = "", more: str = "", format_: str = "") -> None:
        """Sets the drill's target from now on: its definition, and its table's columns."""
        self.here.rewrite(
            "import Append,",
            "import Accumulate, Append, Avro, Count, Custom, Envelope, Feed, History, Max, PerPartition, Raw, Sum, Upsert,",
        )
        self.here.rewrite('target=Append("public.drill")', f"target={target}")
        if format_:
            self.here.rewrite('Json("id string, n int")', format_)
        self.table(columns, key, more)

    def table(self, columns: str, key: str = "", more: str = "") -> None:
        """Makes the table anew."""
        key = f", primary key ({key})" if key else ""
        text = f"create table if not exists public.drill ({columns}, {COORDINATES}{key}) {more};"
        (self.here.drill.home / "drill" / "target.sql").write_text(text)
        self.spoil("drop table public.drill")
        migrate_target(self.here.at.conn, self.here.folder)

    def spoil(self, statement: str) -> None:
        """Runs a statement that no constraint and no trigger sees."""
        with closing(psycopg2.connect(self._dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute("set session_replication_role = replica")
            cur.execute(statement)

    def checks(self, *, deep: bool = True) -> list[PromiseCheck]:
        return verify(self.here.at.conn, self.here.at.broker, self.here.folder_as_run, deep=deep)

    def wrong(self, *, deep: bool = True) -> dict[str, str]:
        """Returns the failing checks: name → detail, without the partition in the name."""
        failed = [check for check in self.checks(deep=deep) if not check.ok]
        return Details({check.name.rpartition(": ")[2]: check.detail for check in failed})

    def proved(self, *, deep: bool = True) -> tuple[str, str]:
        """Returns what coordinates and contents of the drill's table were compared against."""
        (proof,) = proofs(["public.drill"], self.checks(deep=deep))
        return proof.coordinates, proof.contents

    def last_line(self, *, deep: bool = True) -> str:
        checks = self.checks(deep=deep)
        return conclusion("drill", proofs(["public.drill"], checks), checks)

    def left_out(self, *, deep: bool = True) -> str:
        return "; ".join(check.left_out for check in self.checks(deep=deep) if check.left_out)


def records(*values: dict | None, key: str = "id") -> list[tuple[str, str | None]]:
    """Returns Kafka's key and value of each."""
    return [(str(value[key]), json.dumps(value)) for value in values if value is not None]
