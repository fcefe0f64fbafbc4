"""Writes ledger/schema.sql anew, the ledger as all migrations together make it. `make schema` calls it.

Objects come from a migrated database. Comments and the text of views come from the migration that wrote them last.
Postgres keeps no comments, and its versions write views differently.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from lockstep.ledger.migrate import known_migrations
from support.servers.fresh_ledger import fresh_ledger

QUERY = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
HEAD = """\
-- The ledger as it is in force: what all migrations together make, in lockstep and lockstep_lake, owned by lockstep_owner.
-- Written by `make schema`, to be read. `lockstep migrate` applies the migrations, not this file; a test holds it to them.
-- Roles and grants are in catalog.txt.
"""
WIDTH = 128
CREATED = re.compile(r"create (?:or replace )?(?:unique )?(table|view|sequence|function|index) ([\w.]+)")
ADDED = re.compile(r"alter table (\w+) add column")
COLUMN = re.compile(r'    "?(\w+)"? .*  -- (.+)')
VIEW = re.compile(r"^create (?:or replace )?view (\w+) as\n.*?;$", re.MULTILINE | re.DOTALL)
MAY_BREAK = re.compile(r" (?=references |and |or |execute |int4range|offsets with|'|case|when|else|end)")
QUOTED = re.compile(r"""('[^']*'|"[^"]*")""")
ANY_OF = re.compile(r"= any \(array\[((?:'[^']*'::text(?:, )?)+)\]\)")


def schema(cur: Any) -> str:
    """Returns the text of `schema.sql` for the migrated database of the cursor."""
    # Else names are qualified by what a session happens to see.
    cur.execute("savepoint own_path; set local search_path = lockstep, pg_catalog")
    cur.execute(QUERY)
    found = cur.fetchall()
    cur.execute("rollback to own_path; release own_path")
    told, views = (
        comments(),
        {view[1]: view[0] for each in known_migrations() for view in VIEW.finditer(each.statements)},
    )
    parts = [HEAD]
    parts += [f"{above(told, row)}create sequence {row.name};\n" for row in found if row.kind == "sequence"]
    parts += [
        table(row, [each for each in found if each.table == row.name], told) for row in found if row.kind == "table"
    ]
    for row in (row for row in found if row.kind in {"function", "view"}):
        if row.kind == "view":
            parts.append(above(told, row) + views[row.name].replace("create or replace", "create") + "\n")
        else:
            triggers = [each for each in found if each.kind == "trigger" and each.more == row.name]
            parts.append(function(row, triggers, told))
    return "\n".join(parts)


def comments() -> dict[tuple[str, str], str]:
    """Returns the migrations' comment on a table, column, function, view, index or sequence. The last one counts."""
    told: dict[tuple[str, str], str] = {}
    for migration in known_migrations():
        pending: list[str] = []
        within = ""
        for line in migration.statements.splitlines():
            if line.startswith("-- "):
                pending.append(line[3:])
                continue
            text = " ".join(pending)
            if made := CREATED.match(line):
                text = text or line.partition("  -- ")[2]
                names = [(made[1], made[2])]
                within = made[2] if made[1] == "table" else ""
            elif added := ADDED.match(line):
                names = [("column", f"{added[1]}.{name}") for name in re.findall(r"add column (\w+)", line)]
            elif within and (column := COLUMN.match(line)):
                names, text = [("column", f"{within}.{column[1]}")], column[2]
            else:
                names = []
            if text:
                told |= dict.fromkeys(names, text.replace("this migration", f"migration {migration.version:04}"))
            pending = []
    return told


def table(row: Any, parts: list[Any], told: dict[tuple[str, str], str]) -> str:
    """Returns a table with its columns, constraints and indexes. Those that are not validated are added behind it."""
    lines = []
    for column in (part for part in parts if part.kind == "column"):
        name = f"{row.name}.{column.name}".replace('"', "")
        lines.append((f"    {column.name} {lowered(column.what)}", told.get(("column", name), "")))
    late = []
    for part in (part for part in parts if part.kind == "constraint"):
        text = f"constraint {part.name} {lowered(part.what)}"
        if text.endswith(" not valid"):
            late.append(f"alter table {row.name} add {text};")
        else:
            lines.append((f"    {folded(text)}", ""))
    late += [lowered(part.what).replace(" using btree ", " ") + ";" for part in parts if part.kind == "index"]
    body = []
    for number, (line, comment) in enumerate(lines, 1):
        ended = line + ("," if number < len(lines) else "")
        if comment and len(ended) + len(comment) + 5 > WIDTH:
            body += [*wrapped(comment, "    "), ended]
        else:
            body.append(f"{ended}  -- {comment}" if comment else ended)
    options = f" with ({row.what})" if row.what else ""
    return "\n".join([f"{above(told, row)}create table {row.name} (", *body, f"){options};", *late, ""])


def function(row: Any, triggers: list[Any], told: dict[tuple[str, str], str]) -> str:
    """Returns a function, its body as it was written, and the triggers that call it."""
    head = f"create function {lowered(row.what)} as $$"
    if len(head) > WIDTH:
        head = re.sub(r" (language |set search_path )", r"\n    \1", head)
    calls = []
    for trigger in triggers:
        text = re.sub(
            r" (deferrable initially deferred for each|for each) ", r"\n    \1 ", lowered(trigger.what), count=1
        )
        calls.append("\n    ".join(folded(line) for line in text.split("\n    ")) + ";")
    return "\n".join([f"{above(told, row)}{head}{row.more}$$;", *calls, ""])


def above(told: dict[tuple[str, str], str], row: Any) -> str:
    """Returns the lines of comment that stand above an object."""
    return "".join(f"{line}\n" for line in wrapped(told.get((row.kind, row.name), ""), ""))


def wrapped(text: str, indent: str) -> list[str]:
    """Returns a comment as lines of the file's width."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(f"{indent}-- {word}")
    return lines


def folded(text: str) -> str:
    """Returns a constraint, or a trigger, over as many lines as it needs."""
    lines = [""]
    for piece in MAY_BREAK.split(" ".join(text.split())):
        if lines[-1] and len(lines[-1]) + len(piece) > WIDTH - 10:
            lines.append(piece)
        else:
            lines[-1] = f"{lines[-1]} {piece}".strip()
    return "\n        ".join(lines)


def lowered(text: str) -> str:
    """Returns Postgres's words in lower case.

    Keeps its lists of words as they were written: `kind in ('batch', 'loss')`.
    """
    lower = "".join(part if part[:1] in {"'", '"'} else part.lower() for part in QUOTED.split(text))
    lists = ANY_OF.sub(lambda found: f"in ({found[1]})", lower)
    return re.sub(r"'::text\b(?!\[)", "'", lists).replace("timestamp with time zone", "timestamptz")


def main() -> None:
    with fresh_ledger() as cur:
        text = schema(cur)
    path = Path(str(files("lockstep.ledger"))) / "schema.sql"
    path.write_text(text, encoding="utf-8")
    print(f"{path.name}: {len(text.splitlines())} lines")


if __name__ == "__main__":
    main()
