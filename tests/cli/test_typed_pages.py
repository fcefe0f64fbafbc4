"""Types what the pages on audit, erasure and restore say, in their order, and compares what is printed with them."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg2
import pytest
from confluent_kafka import Producer

from support.scenes.typed import home_like_a_checkout, typed, typed_in_a_shell
from support.servers.timelines import copied

DOCS = Path(__file__).parents[2] / "docs"
PROGRAMS = ("lockstep", "openssl", "jq")
HOUR = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
BATCHES, RECORDS_A_BATCH = 13, 10
KEY = "4711"
DEFINITION = """
from lockstep import Append, Json, Limits, Pipeline
ORDERS = Pipeline(
    name="orders", topic="{topic}", format=Json("customer string, n int"), target=Append("public.orders"),
    start="{start:%Y-%m-%dT%H:%M:%SZ}", limits=Limits(records={records}), max_reject_share=0.5,
)
"""
TARGET = """
create table if not exists public.orders (customer text, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null, primary key (_stream, _offset, _ordinal));
"""
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@dataclass
class Shop:
    """A clean project folder with the pipeline that the pages speak of, and its topic with one partition."""

    home: Path
    environ: dict[str, str]
    kafka: str
    topic: str

    def lockstep(self, command: str) -> str:
        return typed(f"lockstep {command}", self.home, self.environ)

    def send(self, batches: int, first: int = 0) -> None:
        """Sends batches of ten records: in each, two rows are the person's, and a reject holds the key."""
        producer = Producer({"bootstrap.servers": self.kafka, "linger.ms": 5})
        for n in range(first, first + batches * RECORDS_A_BATCH):
            value = json.dumps({"customer": KEY if n % 5 == 0 else f"c{n}", "n": n})
            if n % RECORDS_A_BATCH == RECORDS_A_BATCH - 1:
                value = "{broken " + KEY
            moment = HOUR + timedelta(seconds=n)
            producer.produce(self.topic, value, "k", partition=0, timestamp=int(moment.timestamp() * 1000))
        assert producer.flush(20) == 0


@pytest.fixture
def shop(database, kafka, topic, tmp_path):
    name = topic(partitions=1)
    with home_like_a_checkout(database, kafka, tmp_path, name) as (home, environ):
        folder = home / "include" / "pipelines" / "orders"
        folder.mkdir()
        definition = DEFINITION.format(topic=name, start=HOUR, records=RECORDS_A_BATCH)
        (folder / "__init__.py").write_text(definition)
        (folder / "target.sql").write_text(TARGET)
        made = Shop(home, environ, kafka, name)
        made.lockstep("migrate orders")
        yield made


def commands(page: str) -> list[str]:
    """Returns each line that the page has somebody type, with the hour of this test's records."""
    text = (DOCS / page).read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    return [
        re.sub(r"\d{4}-\d\d-\d\dT\d\d\b", f"{HOUR:%Y-%m-%dT%H}", line) for line in lines if line.split()[0] in PROGRAMS
    ]


def typed_through(shop: Shop, page: str) -> dict[str, str]:
    return {line: typed_in_a_shell(line, shop.home, shop.environ) for line in commands(page)}


def words(text: str) -> str:
    """Returns a text in which numbers and the width of columns do not count."""
    return re.sub(r"\d+", "N", " ".join(text.split()))


def test_what_the_pages_on_audit_and_erasure_say_is_typed_in_order(shop, database, postgres):
    shop.send(BATCHES)
    shop.lockstep("run orders --until-idle")
    shop.lockstep("hours orders")

    said = typed_through(shop, "audit.md")

    assert len(said) >= 10
    proved = [text for line, text in said.items() if line.startswith("lockstep verify")]
    assert all("proved, batch 12 of orders: 10 delivered" in text for text in proved), proved
    assert "Signature Verified Successfully" in "".join(said.values())
    certificate = json.loads((shop.home / "batch-12.json").read_text())["certificate"]
    assert certificate["links"][0]["digest"] in said[next(line for line in said if line.endswith("sha256sum"))]
    hour = json.loads((shop.home / "hour.json").read_text())["certificate"]
    assert hour["totals"]["delivered"] == BATCHES * RECORDS_A_BATCH

    said = typed_through(shop, "erase.md")

    page = (DOCS / "erase.md").read_text(encoding="utf-8")
    shown = [line.strip() for line in page.splitlines() if line.startswith("    orders: erased by")]
    assert [words(line) for line in shown] == [words(list(said.values())[-1].splitlines()[0])]
    deep = shop.lockstep("verify orders --deep")
    (told,) = [line.strip() for line in page.splitlines() if line.startswith("    ok  what was erased")]
    assert words(told) in words(deep)
    with closing(psycopg2.connect(database)) as conn, conn.cursor() as cur:
        cur.execute(
            "select (select count(*) from public.orders where customer = %s), count(value) from lockstep.reject", [KEY]
        )
        assert cur.fetchone() == (0, 0)
    since = shop.lockstep("verify orders --certificate batch-12.json --public-key public.pem")
    (told,) = re.findall(
        r"^    (batch 12: decision .*)$", (DOCS / "audit.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert words(told) in words(since)
    (vacuum,) = re.findall(r"`(vacuum \(analyze\) [^`]+)`", page)
    with closing(psycopg2.connect(re.sub(r"/\w+$", database[database.rindex("/") :], postgres))) as conn:
        conn.autocommit = True
        conn.cursor().execute(vacuum)
    again = typed_in_a_shell(
        'lockstep erase orders --key - --column customer --reason "request 12"', shop.home, shop.environ, KEY
    )
    assert again == "orders: nothing of this key is there; it was erased before\n"


def restore_steps() -> list[str]:
    """Returns the commands of the numbered steps after a restore, in their order."""
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    steps = page.partition("## Restore from a backup")[2].partition("\n`restored`")[0]
    return [step.replace("NAME", "orders") for step in re.findall(r"`(lockstep (?:restored|verify) [^`]+)`", steps)]


def test_a_restore_is_typed_as_the_page_on_operations_says(shop, database, postgres):
    preview, said, deep = restore_steps()
    shop.send(3)
    shop.lockstep("run orders --until-idle")
    with copied(postgres, database) as backup:
        shop.send(2, first=30)
        shop.lockstep("run orders --until-idle")
        shop.environ["LOCKSTEP_DSN"] = backup  # the restored database, in place of the one that went on

        before = typed_in_a_shell(preview, shop.home, shop.environ)
        told = typed_in_a_shell(said, shop.home, shop.environ)

        assert "gone: " in before
        assert [line for line in before.splitlines() if line.startswith("gone")] == [
            line for line in told.splitlines() if line.startswith("gone")
        ]
        todo = [line for line in told.splitlines() if line.startswith("now:")]
        (again,) = {found for line in todo for found in re.findall(r"lockstep run orders\b", line)}
        typed_in_a_shell(f"{again} --until-idle", shop.home, shop.environ)
        proved = typed_in_a_shell(deep, shop.home, shop.environ)
        assert "orders: " in proved.splitlines()[-1]
        with closing(psycopg2.connect(backup)) as conn, conn.cursor() as cur:
            cur.execute("select array_agg(n order by n) from public.orders")
            assert cur.fetchone()[0] == [n for n in range(50) if n % RECORDS_A_BATCH != RECORDS_A_BATCH - 1]
            cur.execute("select kind, why from lockstep.decision")
            assert cur.fetchall() == [("restored", "restored to 12:00")]


def test_a_backup_from_before_the_first_plan_is_planned_first(shop, database, postgres):
    with copied(postgres, database) as backup:
        shop.send(1)
        shop.lockstep("run orders --until-idle")
        shop.environ["LOCKSTEP_DSN"] = backup
        preview, said, _ = restore_steps()
        with pytest.raises(AssertionError, match="lockstep plan orders"):
            typed_in_a_shell(preview, shop.home, shop.environ)

        typed_in_a_shell("lockstep plan orders", shop.home, shop.environ)
        told = typed_in_a_shell(said, shop.home, shop.environ)

        assert "gone: " in told
        typed_in_a_shell("lockstep run orders --until-idle", shop.home, shop.environ)
        with closing(psycopg2.connect(backup)) as conn, conn.cursor() as cur:
            cur.execute("select count(*) from public.orders")
            assert cur.fetchone() == (9,)
