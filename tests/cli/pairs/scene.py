"""Runs one pipeline of a kind by the command line, over real Kafka and Postgres, and looks at what its target holds."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2
import pyarrow.dataset as ds

from cli.pairs.kinds import Kind, Record, as_rows
from feed.sending import read_topic
from lockstep.engine.chosen import ChosenEngine, ProcessReader
from lockstep.engine.kafka_ranges import KafkaRanges
from support.engines import IN_PROCESS
from support.fakes.plain_engine import PlainEngine
from support.scenes.drill import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lockstep.core.engine import Engine
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.steps.context import Context
    from support.scenes.command_line import CommandLine, Said

FIRST = (Record("a", 1), Record("b", 2), Record("c", 3), Record("d", 4), Record("a", 5), Record("b", None))
SECOND = (Record("c", 6), Record("d", None), Record("b", 8), Record("e", 9), Record("a", 10), Record("e", 7))
LAST = (Record("y", 31), Record("z", 32))  # much later, one in each partition: windows before them have ended
TABLES = """select format('%I.%I', n.nspname, relname), n.nspname
    from pg_class c join pg_namespace n on n.oid = relnamespace
    where relkind = 'r' and (n.nspname ~ '^lockstep' or n.nspname = 'public')"""
WHY = ("--reason", "case 12")


def unchanged(value: dict) -> dict | None:
    """Returns the record as it is, as without any code."""
    return value


class Pair:
    """A pipeline of one kind. `code` is the code of the day. None but the product reads records while it is unchanged."""

    def __init__(self, kind: Kind, lockstep: CommandLine, dsn: str, kafka: str, topic: str, produce: Any) -> None:
        self.kind, self.lockstep = kind, lockstep
        self.dsn, self.kafka, self.topic, self._produce = dsn, kafka, topic, produce
        self.sink, self.warehouse, self.files = f"{topic}-sent", "", Path()
        self.catalog: Any = None
        self.code: Callable[[dict], dict | None] = unchanged
        self.sent: list[Record] = []

    def define(self) -> None:
        folder = self.lockstep.define("drill", init=self.kind.definition(self.topic, self.sink), target=self.kind.sql)
        if not self.kind.sql:
            (folder / "target.sql").unlink()

    def engine(self, folder: PipelineFolder, at: Context, code: Callable[[dict], dict | None] | None = None) -> Engine:
        """Returns the product's own reader. Records that it leaves to Spark, and code, are left to a plain reader."""
        code = code or self.code

        def driver() -> ProcessReader:
            reader = KafkaRanges(at.broker.bootstrap, at.broker.options, folder.pipeline.record_limits)
            return ProcessReader(folder, reader, at.dsn)

        def plain() -> PlainEngine:
            return PlainEngine(folder, self.kafka, at.dsn, code)

        return ChosenEngine(folder, driver, plain, IN_PROCESS) if code is unchanged else plain()

    def say(self, *arguments: str) -> Said:
        """Types a command that must succeed."""
        said = self.lockstep(*arguments)
        assert (said.code, said.err) == (0, ""), said
        return said

    def put(self, *records: Record) -> tuple[Record, ...]:
        """Sends the records, without deletions where the kind does not take them. Returns those that were sent."""
        records = tuple(each for each in records if each.n is not None or self.kind.takes_deletions)
        for each in records:
            value = {"id": each.key, "n": each.n, "at": each.at.isoformat()}
            self._produce(self.topic, [(each.key, None if each.n is None else json.dumps(value))], each.partition)
        self.sent += records
        return records

    def drain(self) -> None:
        self.say("run", "drill", "--until-idle")

    def rows(self) -> list[tuple]:
        """Returns what readers of the target see."""
        match self.kind.at:
            case "warehouse":
                return as_rows(ask(self.warehouse, self.kind.look))
            case "files":
                files = [str(path) for path in sorted(self.files.glob("drills/drill/*/[0-9]*.parquet"))]
                return as_rows(_pairs(ds.dataset(files, format="parquet").to_table()))
            case "catalog":
                return as_rows(_pairs(self.catalog.catalog.load_table(("web", "drill")).scan().to_arrow()))
            case "lake":
                found = [row for batch in self.lake_table().read(["id", "n"]) for row in _pairs(batch)]
                beside = ask(self.dsn, "select id, n from public.drill") if self.kind.sql else []
                return as_rows([*found, *beside])
        if self.kind.look == "SINK":
            values = [json.loads(value) for part in read_topic(self.kafka, self.sink).values() for _, value, _ in part]
            return as_rows((each["id"], each["n"]) for each in values)
        return as_rows(ask(self.dsn, self.kind.look))

    def lake_table(self) -> Any:
        from lockstep.adapters.iceberg.table import LakeTable  # noqa: PLC0415 - the extra may be missing

        ((pointer,),) = ask(
            self.dsn,
            "select metadata_location from lockstep_lake.iceberg_tables where table_name = %s",
            self.kind.look.rpartition(".")[2],
        )
        return LakeTable(f"lockstep.{self.kind.look}", pointer)

    def expected(self, records: Iterable[Record] | None = None) -> list[tuple]:
        """Returns what one clean pass over the records gives. Without any, over all that were sent."""
        return as_rows(self.kind.expected(self.sent if records is None else list(records)))

    def assert_whole(self, records: Sequence[Record] | None = None) -> None:
        """Asserts that the target is as after a clean pass, and that verify finds nothing wrong."""
        assert self.rows() == self.expected(records)
        assert self.rows()
        self.assert_verified()

    def assert_verified(self) -> None:
        deep = self.lockstep("verify", "drill", "--deep")
        assert (deep.code, deep.err) == (0, ""), deep

    def in_database(self) -> dict[str, str]:
        """Returns a digest of every table of the ledger's database, and of what the target holds."""
        with closing(psycopg2.connect(self.dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute(TABLES)
            found = {}
            for table, schema in cur.fetchall():
                cur.execute(f"set role {'lockstep_targets' if schema == 'public' else 'lockstep_owner'}")
                cur.execute(f"select coalesce(md5(string_agg(t::text, ',' order by t::text)), '') from {table} t")
                (found[table],) = cur.fetchone()
        return found | {"rows": str(self.rows())}


def _pairs(found: Any) -> list[tuple]:
    return list(zip(found.column("id").to_pylist(), found.column("n").to_pylist(), strict=True))


def digest_in(text: str) -> str:
    return re.findall(r"^digest ([0-9a-f]{64});", text, re.MULTILINE)[0]
