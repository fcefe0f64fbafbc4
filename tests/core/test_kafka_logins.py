"""Tests logins in the words of both client libraries: passwords, tokens, MSK and Kerberos."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.core.errors import BadDefinition
from lockstep.core.kafka_options import KafkaOptions, kafka_options

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required {};"
ID, SECRET = "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"
PRINCIPAL = "sasl.kerberos.principal"
URL = "sasl.oauthbearer.token.endpoint.url"
LOCKED = {"security.protocol": "SASL_SSL"}
BY_TOKEN = LOCKED | {"sasl.mechanism": "OAUTHBEARER", ID: "me", SECRET: "hidden", URL: "https://issuer/token"}
MSK = LOCKED | {"sasl.mechanism": "AWS_MSK_IAM", "aws.region": "eu-west-1"}
KERBEROS = LOCKED | {
    "sasl.mechanism": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
    PRINCIPAL: "etl@EXAMPLE",
    "sasl.kerberos.keytab": "/etc/etl.keytab",
}
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20)
SASL = st.fixed_dictionaries(
    {
        "security.protocol": st.sampled_from(["SASL_SSL", "SASL_PLAINTEXT"]),
        "sasl.mechanism": st.sampled_from(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]),
        "sasl.username": TEXT,
        "sasl.password": TEXT,
    }
)
TOKENS = st.fixed_dictionaries(
    {name: st.just(value) for name, value in BY_TOKEN.items()} | {ID: TEXT, SECRET: TEXT},
    optional={
        "sasl.oauthbearer.scope": TEXT,
        "sasl.oauthbearer.sub.claim.name": TEXT,
        "sasl.oauthbearer.extensions": st.sampled_from(["logicalCluster=lkc-1", "a=b,logicalCluster=l=k c"]),
        "https.ca.pem": st.sampled_from(["one line", "-----BEGIN-----\nab+/=\n-----END-----\n"]),
    },
)
KERBEROS_LOGIN = st.fixed_dictionaries(
    {name: st.just(value) for name, value in KERBEROS.items()} | {"sasl.kerberos.principal": TEXT}
)
LOGIN = st.one_of(SASL, TOKENS, KERBEROS_LOGIN)


@given(LOGIN)
def test_each_login_is_given_to_librdkafka_as_it_is(given_):
    method = {"sasl.oauthbearer.method": "oidc"} if given_["sasl.mechanism"] == "OAUTHBEARER" else {}
    assert kafka_options(given_).for_librdkafka() == given_ | method


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (BY_TOKEN | {ID: None}, f"{ID} is not set, and sasl.mechanism OAUTHBEARER needs it"),
        (BY_TOKEN | {SECRET: ""}, f"{SECRET} is not set"),
        (BY_TOKEN | {URL: None}, f"{URL} is not set"),
        (BY_TOKEN | {URL: "issuer/token"}, "it is no address such as https://host/token"),
        (BY_TOKEN | {URL: "ftp://issuer/token"}, "it is no address"),
        (BY_TOKEN | {URL: "https:///token"}, "it is no address"),
        (BY_TOKEN | {URL: "https://issuer:x/token"}, "it is no address"),
        (BY_TOKEN | {URL: "https://issuer/token,https://other"}, "it is no address"),
        (BY_TOKEN | {URL: "https://me:hidden@issuer/token"}, "it must hold no login"),
        (BY_TOKEN | {"sasl.mechanism": None}, "is set, and sasl.mechanism is not"),
        (BY_TOKEN | {"sasl.username": "u"}, "sasl.username is set, and sasl.mechanism OAUTHBEARER does not take it"),
        (BY_TOKEN | {"sasl.oauthbearer.method": "default"}, "sasl.oauthbearer.method: default is not one of oidc"),
        (BY_TOKEN | {"sasl.oauthbearer.extensions": "a"}, "must be NAME=VALUE"),
        (BY_TOKEN | {"sasl.oauthbearer.extensions": "a1=b"}, "must be NAME=VALUE"),
        (BY_TOKEN | {SECRET: "hid\nden"}, "cannot be printed"),
        (BY_TOKEN | {"https.ca.pem": "a", "https.ca.location": "/ca"}, "say the same thing twice"),
        (MSK | {"aws.region": None}, "aws.region is not set, and sasl.mechanism AWS_MSK_IAM needs it"),
        (KERBEROS | {"sasl.kerberos.keytab": None}, "sasl.kerberos.keytab is not set"),
        (KERBEROS | {"aws.region": "x"}, "aws.region is set, and sasl.mechanism GSSAPI does not take it"),
    ],
)
def test_a_wrong_login_is_said_in_one_line_that_names_it(options, words):
    with pytest.raises(BadDefinition, match=words) as refusal:
        kafka_options({name: value for name, value in options.items() if value is not None})
    assert "\n" not in str(refusal.value)
    assert "hid" not in str(refusal.value)


def test_no_login_goes_out_without_its_protocol():
    for login in (BY_TOKEN, MSK, KERBEROS):
        for protocol in ({"security.protocol": "SSL"}, {"security.protocol": "PLAINTEXT"}, {}):
            given = {name: value for name, value in login.items() if name != "security.protocol"} | protocol
            with pytest.raises(BadDefinition, match=r"sasl\.mechanism goes with security\.protocol SASL_SSL"):
                kafka_options(given)


def test_no_callback_but_the_mechanisms_own_is_taken():
    for name in ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class"):
        with pytest.raises(BadDefinition, match=rf"{name}: only [a-z.]*(kafka|msk)[\w.]*CallbackHandler is taken"):
            kafka_options(BY_TOKEN | {name: "a.b.C"})
    old = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"  # its name before 3.9
    assert kafka_options(BY_TOKEN | {"sasl.login.callback.handler.class": old}) == kafka_options(BY_TOKEN)


def test_a_login_by_tokens_is_what_each_library_documents():
    ours = BY_TOKEN | {
        "sasl.oauthbearer.scope": "read",
        "sasl.oauthbearer.extensions": "pool=p-1",
        "https.ca.pem": "one\nline",
    }
    assert kafka_options(ours).for_librdkafka() == ours | {"sasl.oauthbearer.method": "oidc"}
    java = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="me" clientSecret="hidden" scope="read" ssl.truststore.certificates="one\\nline" '
        'ssl.truststore.type="PEM" extension_pool="p-1";',
        "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        URL: "https://issuer/token",
    }
    assert kafka_options(java) == kafka_options(ours)


def test_the_login_at_msk_and_by_kerberos_is_what_java_documents():
    assert kafka_options(MSK).for_librdkafka() == LOCKED | {"sasl.mechanism": "OAUTHBEARER"}
    java = {
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    }
    assert kafka_options(LOCKED | java | {"aws.region": "eu-west-1"}) == kafka_options(MSK)
    java = {
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required "
        'useKeyTab="true" storeKey="true" principal="etl@EXAMPLE" keyTab="/etc/etl.keytab";',
    }
    assert kafka_options(LOCKED | java) == kafka_options(KERBEROS)


@given(st.text(), st.sampled_from([SECRET, "sasl.password", "ssl.key.password"]))
def test_a_foreign_text_is_one_line_without_the_secret(text, name):
    options = KafkaOptions(((name, "s3cret"),))
    said = options.hidden(f"{text}\n a s3cret, {text}s3cret")
    assert "s3cret" not in said
    assert len(said.splitlines()) <= 1
