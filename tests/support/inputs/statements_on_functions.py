"""Generates statements on functions: calls with plausible arguments, and changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.inputs.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Iterator

ARGUMENTS = {
    "of_batch": ("{b}", "{later}", "{replay}"),
    "attempt_batch": ("{b}", "{later}", "{replay}"),
    "staged": ("{staging}",),
    "of_token": ("{t}", "{t2}", "{t2}"),
    "attempt_token": ("{t}", "{t2}", "{t2}"),
    "stream": ("{s}", "{other}"),
    "of_stream": ("{s}", "{other}", "null"),
    "of_pipeline": ("'orders'", "'others'"),
    "old_name": ("'orders'", "'others'"),
    "new_name": ("'mine'", "'more'"),
    "of_target": ("'public.orders'", "'lockstep_send.clean_v1'"),
    "most": ("1000", "0"),
    "target": ("'public.orders'", "'lockstep_send.clean_v1'"),
    "at_offset": ("6", "15"),
    "of_erasure": ("1", "2"),
    "shown": ("'public.orders'",),
    "whole": ("'public.orders'",),
    "part": ("'public.orders'", "{staging}"),
    "filled": ("{staging}", "'public.orders'"),
    "merged": ("{staging}",),
    "needles": ("array['a'::bytea]",),
    "of_set": ("1", "2"),
    "seen_token": ("50", "5"),
    "seen_batch": ("50", "5"),
    "seen_stream": ("50", "5"),
    "wanted": ("'[0, 5)'",),
    "key": ("""'["a"]'""", "'a'"),
    "of_key": ("""'["a"]'""",),
    "pattern": ("'a'", "'%%'"),
    "of_row": ("'n'",),
    "of_column": ("'id'",),
    "zone": ("'UTC'",),
    "address": ("'l/orders/data/x'",),
    "of_kind": ("'skip'",),
    "streams": ("array[{s}]",),
    "ranges": ("array['[0, 10)'::int8range]",),
    "folder": ("'l/orders'",),
    "of_decision": ("1",),
}
PLAUSIBLE = {
    "bigint": ("1", "0", "null"),
    "integer": ("1", "0", "null"),
    "text": ("'orders'", "'x'", "null"),
    "boolean": ("true", "false"),
    "jsonb": ("'{{}}'", "null"),
    "regclass": ("'public.orders'", "'lockstep.batch'"),
    "uuid": ("gen_random_uuid()", "null"),
    "bytea": ("'a'", "null"),
    "xid": ("'3'",),
    "timestamp with time zone": ("now()",),
    "timestamp without time zone": ("now()",),
    "int8range": ("'[0, 5)'",),
    "name": ("'x'",),
}


def on_function(function: Any, known: dict[str, Any]) -> Iterator[Statement]:
    """Yields statements that would change a function, call it, or hang it on a table of the caller's."""
    name, short = function.name, function.short
    acl = f"select proacl::text from pg_proc where oid = {function.oid}"
    for what, sql in {
        "drop": f"drop function {name} cascade",
        "owner": f"alter function {name} owner to current_user",
        "path": f"alter function {name} set search_path = public",
        "rename": f"alter function {name} rename to mine",
        "invoker": f"alter function {name} security invoker",
    }.items():
        yield Statement("alter", short, what, "", sql)
    yield Statement("grant", short, "execute", "", f"grant execute on function {name} to public", acl)
    if function.is_trigger:
        yield from _hung(short)
        return
    for n in range(3):
        given = [
            f"{_argument(each, type_, n)}::{type_}".format(**known)
            for each, type_ in zip([*function.names, *[""] * 9], function.types, strict=False)
        ]
        yield Statement("call", short, "", "", f"select * from {short}({', '.join(given)})", "writes")
        if not function.types:
            return


def _argument(name: str, type_: str, n: int) -> str:
    choices = ARGUMENTS.get(name) or PLAUSIBLE.get(type_, ("null",))
    return choices[n % len(choices)]


def _hung(short: str) -> Iterator[Statement]:
    """Yields statements that hang a trigger function on a table of the caller's."""
    rows = """pipeline text default 'orders', kind text, detail jsonb default '{}', batch_id bigint default 1,
        token bigint default 1, stream_id int default 1, decision_id bigint default 1, target text default 'public.orders',
        "offset" bigint default 1, offsets int8range default '[0,5)'"""
    for when, act in (
        ("before insert on mine for each row", "insert into mine default values"),
        ("after insert on mine referencing new table as added for each statement", "insert into mine default values"),
        (
            "after insert on mine referencing new table as new_rows for each statement",
            "insert into mine default values",
        ),
        ("before delete on mine for each row", "insert into mine default values; delete from mine"),
        ("after update on mine for each row", "insert into mine default values; update mine set token = 2"),
    ):
        hang = f"create temp table mine ({rows}); create trigger t {when} execute function {short}(); {act}"
        yield Statement("hang", short, "", "", hang)
