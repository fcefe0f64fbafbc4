"""Lists mutants of what an erasure does to a feed: which images become blank, who may do it, and who notices."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, Mutant, one

MIGRATION = "ledger/migrations/0044_blank_images.sql"
GUARD = "tests/feed/test_constraints_of_erasures.py::"
STAYS = f"{GUARD}test_an_image_stays_but_for_an_erasure_of_its_own_key"
IMAGES = "tests/feed/test_erased_images.py::"
VERIFY = "tests/feed/test_verify_feeds.py::test_what_is_planted_is_found"
SENT = "      and s.first_number + b.ordinal < coalesce(r.confirmed, f.next_number)\n"
WAITS = "bool_or(s.first_number + i._ordinal_in_set >= $3) over (partition by %3$s) as waits"
OTHERS = "exists (select from %2$s t where (%4$s) = (%3$s) and %6$s = $2) as stands"


def guard(name: str, why: str, old: str, new: str, *cases: int) -> Mutant:
    """Returns a mutant of the trigger that keeps images as they were caught."""
    return one(name, why, tuple(f"{STAYS}[image_stays-{case}]" for case in cases), Edit(MIGRATION, old, new), long=True)


MUTANTS = [
    one(
        "image_stays dropped",
        "whoever has the owner's rights would rewrite what readers were told",
        tuple(f"{STAYS}[image_stays-{case}]" for case in range(17)),
        Edit(
            "ledger/feed/make.sql",
            "create trigger image_stays before update on {images} for each row execute function lockstep.guard_image();\n",
            "",
        ),
        long=True,
    ),
    guard(
        "an erasure blanks images of any key",
        "rows of others would be called erased",
        "                  and lockstep.key_digest($4, convert_to(%s, ''UTF8'')) = $5)',",
        "                  and ($4 is null or length(%s) > 0 or $5 is null))',",
        *(4, 5, 10),
    ),
    guard(
        "an erasure blanks what is not sent",
        "the relay would have no key for the tombstone",
        SENT,
        "",
        14,
    ),
    guard(
        "a pipeline erases in a table of others",
        "its erasures say nothing of their rows",
        "o.target = s.target and o.pipeline = e.pipeline",
        "o.target = s.target",
        15,
    ),
    guard(
        "an image is half erased",
        "a value would be lost, and the rest would be left",
        "to_jsonb(new) - array['_change', '_change_set', '_ordinal_in_set']) = '{}' then",
        "to_jsonb(new) - array['_change', '_change_set', '_ordinal_in_set']) is not null then",
        6,
    ),
    guard(
        "the other image of an update changes with it",
        "a row would have been another one",
        "elsif same *= old and (old",
        "elsif same *= same and (old",
        11,
    ),
    one(
        "erased_once dropped on blank_change",
        "changes that lost their rows would be called erased later",
        (f"{GUARD}test_a_decided_erasure_takes_nothing_more[by name]",),
        Drop("drop trigger erased_once on lockstep.blank_change"),
        long=True,
    ),
    one(
        "an unsent image is blanked",
        "no compacted topic would ever drop the person",
        tuple(
            f"{IMAGES}test_changes_that_are_not_sent_stay_until_the_relay_has_sent_them[{shape}]"
            for shape in ("row", "change")
        ),
        Edit(MIGRATION, SENT, ""),
        Edit(MIGRATION, WAITS, "$3 < 0 as waits"),
        long=True,
    ),
    one(
        "images of a row that is there are blanked",
        "the table would have a row that its feed does not tell of",
        f"{IMAGES}test_rows_of_another_pipeline_keep_their_images_until_it_erases_them",
        Edit(MIGRATION, OTHERS, "false as stands"),
        long=True,
    ),
    one(
        "images are not blanked",
        "the key would be in the feed until it is trimmed",
        (
            f"{IMAGES}test_e22_every_image_of_a_key_loses_its_row_and_keeps_its_number",
            "tests/feed/test_erased.py::test_erase_is_told_to_the_feed_and_no_byte_of_the_key_is_left_in_it",
        ),
        Edit(
            MIGRATION,
            "where not h.waits and not h.stands\n            returning 1",
            "where false\n            returning 1",
        ),
        long=True,
    ),
    one(
        "a feed that holds the key is not told of",
        "the person who asked would be told that all is gone",
        tuple(
            f"{IMAGES}test_changes_that_are_not_sent_stay_until_the_relay_has_sent_them[{shape}]"
            for shape in ("row", "change")
        ),
        Edit(
            "steps/changes/erase.py",
            "    left += left_in_feeds(cur, pipeline, subject.pattern, waiting)\n",
            "",
        ),
        long=True,
    ),
    one(
        "a relay sends erased changes",
        "a record without key and values says nothing",
        f"{IMAGES}test_e22_a_relay_that_begins_anew_steps_over_what_was_erased[row]",
        Edit(
            "ledger/feed/outgoing.sql",
            "and i._change not in ('before', 'erased')\n"
            "      and i._ordinal_in_set >= %(begin)s - s.first_number and i._ordinal_in_set < %(until)s - s.first_number\n"
            "    order by i._ordinal_in_set) i\nleft join lateral (select k.topic",
            "and i._change <> 'before'\n"
            "      and i._ordinal_in_set >= %(begin)s - s.first_number and i._ordinal_in_set < %(until)s - s.first_number\n"
            "    order by i._ordinal_in_set) i\nleft join lateral (select k.topic",
        ),
        Edit("ledger/feed/outgoing.py", '("insert", "update", "delete")', '("insert", "update", "delete", "erased")'),
        Edit("ledger/feed/outgoing.py", "_LAST = {True:", '_LAST = {None: ("lockstep.last", b""), True:'),
        long=True,
    ),
    one(
        "an erased change is compared with its record",
        "verify --deep would call an erasure a fault",
        f"{IMAGES}test_a_row_that_waits_keeps_its_own_changes_and_no_others[change]",
        Edit("steps/proof/verify_topic.py", ", erased=erased)", ")"),
        long=True,
    ),
    one(
        "a change without its row is passed over",
        "whoever empties a feed would call it an erasure",
        (f"{VERIFY}[changes that lost their row, and the row of the table with them]",),
        Edit("ledger/feed/verify.sql", "where i._change = 'erased' and not exists (", "where false and not exists ("),
        long=True,
    ),
    one(
        "an erased change that has its row is passed over",
        "the key would be back in the feed",
        (f"{VERIFY}[a change that an erasure names, and that has its row]",),
        Edit("ledger/feed/verify.sql", "and i._change in ('before', 'after')\n    union", "and false\n    union"),
        long=True,
    ),
    one(
        "the decision says nothing of a feed's changes",
        "one more could be called erased later",
        f"{IMAGES}test_an_erased_change_that_its_decision_does_not_say_is_named",
        Edit(
            MIGRATION,
            "from lockstep.blank_change b where b.erasure_id = of_erasure), 'UTF8'",
            "from lockstep.blank_change b where false), 'UTF8'",
        ),
        long=True,
    ),
]
