"""Gives work to a holder that is not here."""

from __future__ import annotations

import psycopg2


def held_elsewhere(dsn: str, lease: str) -> None:
    """Gives the newest attempt to another machine, with a lease that ends so much later than now."""
    conn = psycopg2.connect(dsn)
    with conn, conn.cursor() as cur:
        cur.execute("set local role lockstep_owner")
        cur.execute(
            "update lockstep.attempt set owner = 'elsewhere/1/1', lease_until = now() + %s::interval"
            " where closed_at is null",
            (lease,),
        )
        assert cur.rowcount == 1
    conn.close()
