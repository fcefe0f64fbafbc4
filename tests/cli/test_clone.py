"""Tests `clone`: the folder of a copy that works at once, or nothing."""

from __future__ import annotations

import pytest

from lockstep.adapters.folders import load
from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.pipeline.definition import Append
from support.scenes.command_line import DEFINITION, TARGET, assert_refused, assert_wrong_call
from support.scenes.odd_logs import delete_records

COPY = ("clone", "drill", "--to", "newest")
ROWS = "select id, n, _offset from public.{} order by id, n"


@pytest.fixture
def copied(here, monkeypatch):
    """The drill with 150 rows. `run newest` runs its copy."""
    here.drain()
    monkeypatch.setattr(type(here), "folder", property(lambda _: load("newest")))
    return here


def edit(here, file: str, **changes: str) -> None:
    path = here.drill.home / "newest" / file
    text = path.read_text()
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    path.write_text(text)


def test_a_copy_with_another_kind_of_target_reads_the_same_topic(lockstep, copied, produce):
    produce(copied.drill.topic, [("k1", '{"id": "r1", "n": 1000}')])
    said = lockstep(*COPY, "--json")
    assert said.document == {
        "pipeline": "newest",
        "clone_of": "drill",
        "folder": str(copied.drill.home / "newest"),
        "files": ["__init__.py", "target.sql"],
        "dag": None,
        "tables": [{"table": "public.drill", "copy": "public.newest"}],
        "start": "earliest",
        "gone": [],
        "next": ["lockstep check newest", "lockstep migrate newest", "lockstep run newest --until-idle"],
    }
    assert copied.drill.ask("select name from lockstep.pipeline") == [("drill",)]
    edit(
        copied,
        "__init__.py",
        **{"import Append": "import Upsert", "Append(": "Upsert(", 'newest")': 'newest", ("id",))'},
    )
    edit(copied, "target.sql", **{"id text": "id text primary key", ", primary key (_stream, _offset, _ordinal)": ""})

    for call in said.document["next"]:
        assert lockstep(*call.split()[1:]).code == 0, call

    appended = copied.drill.ask("select id, n from public.drill order by id")
    assert appended == sorted((f"r{n}", n) for n in range(150))
    assert copied.drill.ask("select id, n from public.newest order by id") == sorted(
        (f"r{n}", 1000 if n == 1 else n) for n in range(150)
    )
    for call in (
        ("pause", "drill", "--reason", "newest takes over"),
        ("run", "newest", "--until-idle"),
        ("forget", "drill", "--reason", "newest took over"),
        ("verify", "newest", "--deep"),
    ):
        assert lockstep(*call).code == 0, call
    assert copied.drill.ask("select id, n from public.drill order by id") == appended


def test_a_copy_says_what_the_log_no_longer_holds_and_has_the_rest(lockstep, copied):
    delete_records(copied.drill.kafka, copied.drill.topic, 7)
    whole = copied.drill.ask(ROWS.format("drill"))
    first = copied.drill.ask(
        "select d.id, d.n, d._offset from public.drill d join lockstep.stream s on s.stream_id = d._stream"
        " where s.partition = 0 and d._offset < 7"
    )
    assert len(first) == 7

    said = lockstep(*COPY)

    assert (said.code, said.err) == (0, "")
    topic = copied.drill.topic
    assert f"{topic}-0: offsets [0, 7) were deleted from the log; newest will not have their records\n" in said.out
    assert said.out.count("were deleted") == 1
    for call in (("migrate", "newest"), ("run", "newest", "--until-idle")):
        assert lockstep(*call).code == 0
    assert copied.drill.ask(ROWS.format("newest")) == [row for row in whole if row not in first]
    assert copied.drill.ask(ROWS.format("drill")) == whole


def test_a_copy_without_ledger_and_broker_is_written_with_its_dag(lockstep):
    lockstep.define(
        expectations='{"name": "orders", "expectations": []}', transform="def transform(r):\n    return r\n"
    )
    dags = lockstep.home / "dags"
    dags.mkdir()
    (dags / "orders.py").write_text("from pipelines.orders import ORDERS\n\ndag, history = dags_for(ORDERS)\n")
    said = lockstep("clone", "orders", "--to", "orders_next")
    assert (said.code, said.err) == (0, "")
    place = "include/pipelines/orders_next"
    assert said.out.startswith(
        f"{place}/__init__.py\n{place}/expectations.json\n{place}/target.sql\n{place}/transform.py\n"
        "dags/orders_next.py\npublic.orders_next: the copy of public.orders\nnot compared with the log: "
    )
    assert said.out.endswith(
        f"Edit key, kind of target or guarantee in {place}/__init__.py, and target.sql beside it\n"
        "Next: lockstep check orders_next, then lockstep migrate orders_next, then lockstep run orders_next --until-idle\n"
    )
    assert (lockstep.pipelines / "orders_next" / "__init__.py").read_text() == DEFINITION.replace(
        'name="orders"', 'name="orders_next"'
    ).replace("public.orders", "public.orders_next")
    assert (lockstep.pipelines / "orders_next" / "target.sql").read_text() == TARGET.replace(
        "public.orders", "public.orders_next"
    )
    assert (dags / "orders_next.py").read_text().startswith("from pipelines.orders_next import ORDERS\n")


def test_a_copy_of_what_began_at_the_end_begins_at_log_start(lockstep):
    lockstep.define(init=DEFINITION.replace("format=", 'start="latest",\n    format='))
    said = lockstep("clone", "orders", "--to", "next")
    assert "next: start is earliest; latest would leave out what orders has read\n" in said.out
    assert load("next").pipeline.start == "earliest"


def test_a_copy_of_a_table_of_the_lake_has_one_of_its_own(lockstep):
    in_lake = DEFINITION.replace(
        "from lockstep.core.pipeline.definition import Json, Pipeline, Upsert",
        "from lockstep import Append, Iceberg, Json, Pipeline",
    )
    in_lake = in_lake.replace('Upsert("public.orders", key=("id",))', 'Append(Iceberg("sales.orders"))')
    (lockstep.define(init=in_lake) / "target.sql").unlink()
    said = lockstep("clone", "orders", "--to", "next")
    assert (said.code, said.err) == (0, "")
    assert "lockstep.sales.next: the copy of lockstep.sales.orders\n" in said.out
    assert load("next").pipeline.target == Append(Iceberg("sales.next"))


COMPUTED = DEFINITION.replace('"public.orders"', '"public." + "orders"')
SHARED = DEFINITION.replace('key=("id",)', 'key=("id",), shared_with=("web",)')


@pytest.mark.parametrize(
    ("call", "files", "words"),
    [
        (("nobody", "next"), {}, ("no pipeline 'nobody'; there are: orders", "lockstep new nobody")),
        (("orders", "orders"), {}, ("orders: a copy needs a name of its own", "--to ANOTHER_NAME")),
        (("orders", "my-orders"), {}, ("name 'my-orders': lower case", "clone orders --to my_orders")),
        (("orders", "class"), {}, ("name 'class': a word of Python", "clone orders --to class_records")),
        (("orders", "../x"), {}, ("name '../x': lower case", "clone orders --to x")),
        (("orders", "n\0"), {}, ("lower case letters",)),
        (("orders", "next"), {"init": SHARED}, ("orders: it shares public.orders with web", "lockstep new next")),
        (("orders", "next"), {"init": COMPUTED}, ("it computes name, table or start", "write them as texts")),
        (
            ("orders", "next"),
            {"target": TARGET + "alter table orders add x int;"},
            ("target.sql names orders without its schema", "mend include/pipelines/orders/target.sql"),
        ),
        (
            ("orders", "next"),
            {"target": TARGET + "create or replace view public.v as select * from public.orders;"},
            ("target.sql also makes the view public.v", "then lockstep clone orders --to next"),
        ),
        (("orders", "next"), {"init": "P = 1\n"}, ("a folder holds exactly one Pipeline", "lockstep check orders")),
    ],
    ids=[
        "unknown",
        "the same name",
        "a dash",
        "a word",
        "a path",
        "NUL",
        "shared",
        "computed",
        "no schema",
        "a view",
        "broken",
    ],
)
def test_what_cannot_be_copied_is_refused_and_nothing_is_written(lockstep, call, files, words):
    lockstep.define(**files)
    before = lockstep.tree()
    assert_refused(lockstep("clone", call[0], "--to", call[1]), *words)
    assert (lockstep.tree(), len(list(lockstep.pipelines.iterdir()))) == (before, 1)


def test_a_place_that_is_taken_is_refused_and_left_as_it_is(lockstep):
    lockstep.define()
    lockstep.define(
        "web", init=DEFINITION.replace('name="orders"', 'name="web"').replace("public.orders", "public.next")
    )
    dags = lockstep.home / "dags"
    dags.mkdir()
    for file in ("orders.py", "late.py"):
        (dags / file).write_text("from pipelines.orders import ORDERS\n")
    before = lockstep.tree()
    again = "lockstep clone orders --to ANOTHER_NAME"
    (lockstep.pipelines / "taken").mkdir()
    for to, words in (
        ("taken", "include/pipelines/taken is there already"),
        ("late", "dags/late.py is there already"),
        ("next", "next: public.next belongs to web"),
    ):
        assert_refused(lockstep("clone", "orders", "--to", to), words, again)
    (lockstep.pipelines / ".other.clone").write_text("in the way")
    assert_refused(lockstep("clone", "orders", "--to", "other"), "include/pipelines/other cannot be written")
    (lockstep.pipelines / ".other.clone").unlink()
    assert lockstep.tree() == before


def test_a_name_that_the_ledger_knows_is_refused(lockstep, here):
    here.drain()
    here.drill.ask("insert into lockstep.pipeline (name) values ('newest') returning 1")
    assert_refused(lockstep(*COPY), "the ledger has a pipeline newest already", "lockstep batches newest")
    assert lockstep("forget", "newest", "--reason", "it never ran").code == 0
    assert_refused(lockstep(*COPY), "newest was forgotten by ", "lockstep forget newest --undo")
    assert [place.name for place in here.drill.home.iterdir()] == ["drill"]


@pytest.mark.parametrize("call", [("clone", "orders"), ("clone", "--to", "next")], ids=["no copy", "no original"])
def test_a_wrong_call_says_which_argument_is_missing(lockstep, call):
    lockstep.define()
    assert_wrong_call(lockstep(*call), "Missing")
