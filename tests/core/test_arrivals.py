"""Tests what a delivery makes of the deliveries that a table elsewhere tells of, and what its settings never say."""

from __future__ import annotations

from lockstep.core.lake.arrivals import (
    Arrival,
    arrival_in_property,
    arrival_in_summary,
    has_arrived,
    newer_than,
    other_writer,
    property_of,
    told_of,
)
from lockstep.core.lake.catalogs import Catalog, catalog_settings

MINE = Arrival(7, 20, ((1, 0, 100), (2, 50, 60)))


def test_what_a_snapshot_and_a_property_tell_is_read_back():
    summary = told_of("clicks", MINE, "live", "c0de")
    assert arrival_in_summary("clicks", summary) == MINE
    assert arrival_in_summary("others", summary) is None
    assert arrival_in_summary("clicks", {"operation": "replace"}) is None
    assert arrival_in_summary("clicks", summary | {"lockstep.batch": "seven"}) is None
    assert property_of("clicks", MINE) == {"lockstep.clicks": "7:20"}
    assert arrival_in_property("clicks", {"lockstep.clicks": "7:20"}) == Arrival(7, 20)
    assert arrival_in_property("clicks", {"lockstep.clicks": "by hand"}) is None
    assert arrival_in_property("clicks", {}) is None


def test_very_many_ranges_are_left_out_of_a_summary():
    many = Arrival(7, 20, tuple((stream, 10**15, 10**16) for stream in range(2_000)))
    told = told_of("clicks", many, "live", "c0de")
    assert sum(map(len, told.values())) < 1_000
    assert arrival_in_summary("clicks", told) == Arrival(7, 20)


def test_a_later_attempt_for_the_batch_or_its_offsets_is_in_the_way():
    same, meets = Arrival(7, 21), Arrival(8, 22, ((2, 59, 70),))
    for harmless in (
        Arrival(7, 19, ((1, 0, 100),)),  # an earlier attempt
        MINE,
        Arrival(8, 22, ((2, 60, 70),)),  # the offsets behind
        Arrival(8, 22, ((3, 0, 100),)),  # another stream
        Arrival(8, 22),  # another batch, of which only the property tells
    ):
        assert newer_than(MINE, [harmless]) is None
    assert newer_than(MINE, [same]) == same
    assert newer_than(MINE, [same, meets]) == meets
    assert has_arrived(MINE, [same, Arrival(7, 20)])
    assert not has_arrived(MINE, [same, Arrival(8, 20)])


def test_another_pipeline_is_told_by_its_property():
    assert other_writer("clicks", {"lockstep.clicks": "7:20", "owner": "web"}) is None
    assert other_writer("clicks", {"lockstep.orders": "1:1"}) == "orders"


def test_no_secret_is_repeated_or_shown():
    options = {"uri": "https://polaris", "credential": "root:s3cr3t-part", "s3.secret-access-key": "AKxx/yy"}
    settings = catalog_settings(Catalog("POLARIS"), options | {"patience": 2})
    assert settings.patience == 2.0
    assert "s3cr3t" not in repr(settings)
    said = settings.without_secrets("root:s3cr3t-part failed;\n s3cr3t-part AKxx/yy")
    assert said == "*** failed; *** ***"
