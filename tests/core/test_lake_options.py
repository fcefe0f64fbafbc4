"""Tests the options of an object store: each on the list, each pair whole, and no value said."""

from __future__ import annotations

from copy import deepcopy

import pytest

from lockstep.core.errors import BadDefinition
from lockstep.core.lake.lake_options import LakeOptions, lake_options
from lockstep.core.lake.store_words import NO_STORE, store_answer

GOOD = {
    "s3.endpoint": "https://s3.example:9000",
    "s3.region": "eu-central-1",
    "s3.access-key-id": "id",
    "s3.secret-access-key": "k/e+y-secret",
    "s3.session-token": "k/e+y-secret-and-more",
    "s3.path-style-access": False,
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"s3.secret": "s3cret"}, "'s3.secret' is not on the list; did you mean s3."),
        ({"warehouse": "s3cret"}, "'warehouse' is not on the list"),
        ({"s3.secret-access-key": None}, "s3.access-key-id and s3.secret-access-key go together"),
        ({"s3.access-key-id": None, "s3.secret-access-key": None}, "s3.session-token goes with s3.access-key-id"),
        ({"s3.role-arn": "s3cret"}, "s3.role-arn and s3.access-key-id: one of the two"),
        ({"s3.region": " "}, "s3.region is empty"),
        ({"s3.path-style-access": "s3cret"}, "s3.path-style-access is true or false"),
        ({"s3.ca.pem": "s3cret", "s3.ca.location": "s3cret"}, "say the same thing twice"),
        *(
            ({"s3.endpoint": address}, "s3.endpoint is no http://HOST:PORT or https://HOST:PORT")
            for address in (
                "s3.example",
                "ftp://s3.example",
                "https://me:s3cret@s3.example",
                "https://s3.example/?key=s3cret",
                "https://s3.example/s3cret",
                "https://s3.example:s3cret",
                "https://[s3cret",
            )
        ),
    ],
)
def test_an_option_that_cannot_be_meant_is_named_and_no_value_is_said(change, words):
    with pytest.raises(BadDefinition) as refused:
        lake_options({name: value for name, value in (GOOD | change).items() if value is not None})
    assert words in refused.value.message
    assert "s3cret" not in str(refused.value)


def test_options_that_travel_show_names_alone_and_hide_their_keys_in_a_foreign_text():
    options = deepcopy(lake_options(GOOD))
    assert options == lake_options(GOOD)
    assert dict(options.values)["s3.path-style-access"] == "false"
    assert "s3.secret-access-key" in repr(options)
    assert "k/e+y" not in repr(options)
    assert options.hidden("a k/e+y-secret-and-more\n  b k/e+y-secret of id") == "a *** b *** of ***"
    assert LakeOptions().hidden("nothing") == "nothing"


def test_a_certificate_travels_as_its_text():
    assert lake_options({"s3.ca.location": "/ca.pem"}).inlined(lambda path: f"of {path}").values == (
        ("s3.ca.pem", "of /ca.pem"),
    )


@pytest.mark.parametrize(
    ("said", "why", "away"),
    [
        ("AWS Error EXPIRED_TOKEN during PutObject", "the session token has expired", False),
        ("Unable to parse ExceptionName: ExpiredToken Message", "the session token has expired", False),
        ("AWS Error INVALID_ACCESS_KEY_ID during", "the store does not know the access key", False),
        ("AWS Error REQUEST_TIME_TOO_SKEWED during", "the clock of this machine is not the store's", False),
        ("AWS Error NO_SUCH_BUCKET during", "there is no such bucket", False),
        ("AWS Error UNKNOWN (HTTP status 301) during", "the bucket is not in the region of s3.region", False),
        ("AWS Error ACCESS_DENIED during", "this login may not do that there", False),
        ("AWS Error UNKNOWN (HTTP status 503) during", "the store is too busy", True),
        ("AWS Error SLOW_DOWN during", "the store is too busy", True),
        ("AWS Error NETWORK_CONNECTION during: curlCode: 7", "no store answers", True),
        ("AWS Error UNKNOWN (HTTP status 418) during", NO_STORE, False),
    ],
)
def test_an_error_of_a_store_has_one_meaning_and_a_next_command(said, why, away):
    answer = store_answer(said)
    assert answer is not None
    assert (answer.why, answer.away) == (why, away)
    assert "lockstep doctor" in answer.next_command or "LOCKSTEP_LAKE" in answer.next_command


def test_an_error_of_a_folder_is_none_of_a_store():
    assert store_answer("[Errno 28] No space left on device") is None
