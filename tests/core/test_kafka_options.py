"""Tests Kafka client options: an allowlist, two dialects, one translation."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer
from hypothesis import given
from hypothesis import strategies as st

from lockstep.core.errors import BadDefinition
from lockstep.core.kafka_options import KAFKA_FILE_OPTIONS, OURS, SAME, from_extra, kafka_options

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required {};"
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20)
NUMBER = st.integers(1, 10**6).map(str)
SASL = st.fixed_dictionaries(
    {
        "security.protocol": st.sampled_from(["SASL_SSL", "SASL_PLAINTEXT"]),
        "sasl.mechanism": st.sampled_from(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]),
        "sasl.username": TEXT,
        "sasl.password": TEXT,
    }
)
TLS = st.fixed_dictionaries(
    {"ssl.ca.pem": TEXT, "ssl.certificate.pem": TEXT, "ssl.key.pem": TEXT},
    optional={"ssl.key.password": TEXT, "ssl.endpoint.identification.algorithm": st.sampled_from(["none", "https"])},
)
TUNING = st.dictionaries(st.sampled_from([name for name in SAME if name.endswith((".ms", ".bytes"))]), NUMBER)


@given(st.builds(lambda *parts: {name: value for part in parts for name, value in part.items()}, SASL, TLS, TUNING))
def test_options_are_the_same_by_the_names_of_either_library(given_):
    options = kafka_options(given_)
    assert options.for_librdkafka() == given_
    assert kafka_options({SAME.get(name, name): value for name, value in given_.items()}) == options


@given(TEXT)
def test_what_is_on_no_list_never_passes(name):
    known = {*SAME, *SAME.values(), *KAFKA_FILE_OPTIONS, *OURS}
    if name not in known:
        with pytest.raises(BadDefinition):
            kafka_options({name: "x"})


@pytest.mark.parametrize("name", OURS)
def test_what_correctness_rests_on_is_not_the_users_to_set(name):
    with pytest.raises(BadDefinition, match=f"{name} is not yours to set"):
        kafka_options({name: "x"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"isolation_level": "x"}, "isolation_level is not on the list"),
        ({"sasl.user": "x"}, "did you mean sasl.username"),
        ({"security.protocol": "TLS"}, "TLS is not one of PLAINTEXT, SSL"),
        ({"sasl.mechanism": "NTLM"}, "NTLM is not one of PLAIN, .*; docs/kafka.md says which logins there are"),
        ({"security.protocol": "TLS"}, "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL$"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u"}, "sasl.password is not"),
        ({"security.protocol": "SASL_SSL", "sasl.username": "u", "sasl.password": "p"}, "sasl.mechanism is not"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"},
            "goes with security.protocol SASL_SSL",
        ),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is not set"),
        ({"reconnect.backoff.ms": "soon"}, "soon is no number"),
        ({"ssl.ca.location": "/ca", "ssl.ca.pem": "ca"}, "say the same thing twice"),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "u",
                "sasl.password": "one\nanother",
            },
            "cannot be printed",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": PLAIN.format('username="u" password="p"'),
            },
            "says something else",
        ),
        ({"ssl.cipher.suites": "x"}, "is not on the list"),
        ({"ssl.certificate.pem": "c"}, "certificate and its key go together"),
        ({"ssl.truststore.type": "JKS"}, "convert it to PEM"),
        (
            {"sasl.jaas.config": 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://x";'},
            "it names no login module that is taken; docs/kafka.md says which",
        ),
        ({"sasl.jaas.config": PLAIN.format('username="u" username="v"')}, "it names no login module that is taken"),
        ({"sasl.jaas.config": PLAIN.format('username="u" file="/x"')}, "file is not taken of PlainLoginModule"),
        ({"sasl.mechanism": "PLAIN", "sasl.mechanisms": "SCRAM-SHA-256"}, "says something else"),
    ],
)
def test_a_wrong_option_is_said_in_one_line_that_names_it(options, words):
    with pytest.raises(BadDefinition, match=words) as refusal:
        kafka_options(options)
    assert "\n" not in str(refusal.value)


def test_a_login_module_may_name_the_password_first():
    given_ = {"security.protocol": "SASL_SSL", "sasl.jaas.config": PLAIN.format('password="p\\"q" username="u"')}
    assert kafka_options(given_).for_librdkafka() == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": 'p"q',
    }


def test_no_secret_shows_in_what_is_logged():
    options = kafka_options(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "u",
            "sasl.password": "hidden",
            "ssl.ca.pem": "hidden too",
        }
    )
    assert "hidden" not in repr(options)
    assert "sasl.password" in repr(options)


def test_files_are_read_where_they_lie_and_travel_as_text():
    options = kafka_options(
        {"ssl.ca.location": "/ca", "ssl.certificate.location": "/chain", "ssl.key.location": "/key"}
    )
    assert options.inlined(lambda path: f"content of {path}").for_librdkafka() == {
        "ssl.ca.pem": "content of /ca",
        "ssl.certificate.pem": "content of /chain",
        "ssl.key.pem": "content of /key",
    }


def test_librdkafka_knows_every_name_that_it_is_given():
    tuning = {name: "10000" for name in SAME if name.endswith((".ms", ".bytes"))} | {"fetch.max.bytes": "2000000"}
    words = {"client.id": "x", "client.rack": "r", "client.dns.lookup": "use_all_dns_ips"}
    options = kafka_options(tuning | words | {"ssl.endpoint.identification.algorithm": "none"})
    Consumer(
        options.for_librdkafka() | {"group.id": "names", "bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    ).close()


def test_an_airflow_connections_extra_is_address_options_and_what_its_consumers_need():
    extra = {
        "bootstrap.servers": "k:9092",
        "security.protocol": "SSL",
        "group.id": "theirs",
        "auto.offset.reset": "latest",
    }
    assert from_extra(extra) == ("k:9092", {"security.protocol": "SSL"}, ("auto.offset.reset", "group.id"))
    assert from_extra({"bootstrap.servers": "k:9092", "interceptor.classes": "x"})[1] == {"interceptor.classes": "x"}
    snippet = {
        "bootstrap.servers": "k:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "key",
        "sasl.password": "secret",
        "session.timeout.ms": "45000",
        "acks": "all",
        "client.id": "ours",
    }
    _, options, left_out = from_extra(snippet)
    assert left_out == ("acks", "session.timeout.ms")
    assert kafka_options(options).names == (
        "client.id", "sasl.mechanism", "sasl.password", "sasl.username", "security.protocol"
    )  # fmt: skip
    with pytest.raises(BadDefinition, match=r"no bootstrap\.servers"):
        from_extra({})
