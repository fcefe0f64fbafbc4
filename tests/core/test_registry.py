"""Tests the registry's address and options: an allowlist, and no secret in what is shown."""

from __future__ import annotations

import pytest

from lockstep.core.errors import BadDefinition
from lockstep.core.kafka_options import kafka_options
from lockstep.core.registry import REGISTRY_PATIENCE, registry

URL = "http://registry:8081"


def test_what_is_given_wins_over_our_patience_and_files_are_read():
    made = registry(URL, {"timeout": 3, "ssl.ca.location": "/ca.pem"}, lambda path: f"content of {path}")
    assert dict(made.options) == REGISTRY_PATIENCE | {"timeout": 3}
    assert made.files == (("ssl.ca.location", "content of /ca.pem"),)


def test_a_login_is_neither_in_its_repr_nor_in_the_address_that_is_shown():
    made = registry("https://me:canary@a:1/x,http://b", {"bearer.auth.credentials.source": "STATIC_TOKEN"}, str)
    assert made.shown == "https://a:1/x,http://b"
    assert "canary" not in repr(made)


def test_the_login_at_kafka_is_that_at_the_registry_and_its_own_words_win():
    kafka = kafka_options(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "canary",
            "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
        }
    )
    given = {"bearer.auth.credentials.source": "SASL_OAUTHBEARER_INHERIT", "bearer.auth.scope": "schemas"}
    made = registry(URL, given, str, kafka)
    assert dict(made.options) == REGISTRY_PATIENCE | {
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.client.id": "me",
        "bearer.auth.client.secret": "canary",
        "bearer.auth.issuer.endpoint.url": "https://issuer/token",
        "bearer.auth.logical.cluster": "",
        "bearer.auth.scope": "schemas",
    }
    assert "canary" not in repr(made)


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("registry:8081", {}, "is no address"),
        ("http://", {}, "is no address"),
        ("http://a:x", {}, "is no address"),
        ("ftp://a", {}, "is no address"),
        (URL, {"basic.auth.userinfo": "canary:x"}, "did you mean basic.auth.user.info"),
        (URL, {"basic.auth.user.info": "canary"}, "must be USER:PASSWORD"),
        ("http://u:canary@a", {"basic.auth.user.info": "u:canary"}, "has a login, too"),
        (URL, {"timeout": "long"}, "timeout: 'long' is no number"),
        (URL, {"max.retries": -1}, "max.retries: -1 is no number"),
        (URL, {"bearer.auth.token": "canary"}, "bearer.auth.credentials.source is missing"),
        (URL, {"ssl.key.location": "/k"}, "goes with ssl.certificate.location"),
        (
            URL,
            {"bearer.auth.credentials.source": "SASL_OAUTHBEARER_INHERIT"},
            "needs Kafka's sasl.mechanism OAUTHBEARER",
        ),
        (URL, {"url": "http://b"}, "Registry option url is not on the list"),
    ],
)
def test_what_makes_no_client_is_refused_by_name_and_never_by_value(url, options, words):
    with pytest.raises(BadDefinition, match=words) as caught:
        registry(url, options, str)
    assert "canary" not in str(caught.value)
