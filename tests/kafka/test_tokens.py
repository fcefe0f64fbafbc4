"""Tests logins by tokens: a broker that checks signatures, a login of each task, and tokens that end in mid-read."""

from __future__ import annotations

import secrets
import time

import pytest

from lockstep.cli.exits import Exit
from support.fakes.issuer import Issuer, serving
from support.oracles.next_commands import faults_of
from support.scenes.behind_tokens import BehindTokens
from support.servers.token_broker import token_broker

LARGE = 8_000  # bytes of a record, so that a throttled read lasts
MANY, SLOW = 2_500, 1_500_000
IN_A_TASK = 7  # tokens: by then a task of Spark has renewed its own


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    issuer, home = Issuer(f"canary-{secrets.token_hex(8)}"), tmp_path_factory.mktemp("tokens")
    with serving(issuer), token_broker(home, issuer) as broker:
        yield broker


@pytest.fixture
def issuer(guarded):
    """Returns the issuer as it was."""
    yield guarded.issuer
    guarded.issuer.seconds, guarded.issuer.trouble, guarded.issuer.forged = 3600.0, None, False


@pytest.fixture
def scene(guarded, issuer, database, tmp_path):
    assert issuer is guarded.issuer
    return BehindTokens(guarded, database, tmp_path / "pipelines")


def test_whoever_has_a_signed_token_reads_and_every_record_lands_once(scene):
    name = scene.make("signed")

    done = scene("run", name, "--until-idle", "--json")

    assert done.returncode == 0, done.stderr
    assert scene.faults(name) == []
    deep = scene("verify", name, "--deep")
    assert deep.returncode == 0, deep.stdout + deep.stderr


@pytest.mark.long
def test_spark_logs_in_by_the_same_words_and_every_record_lands_once(scene, issuer):
    name = scene.make("tasks", spark=True)
    options = scene.broker.options() | {"sasl.oauthbearer.scope": "read write"}

    done = scene("run", name, "--until-idle", "--json", options=options)

    assert done.returncode == 0, done.stderr
    assert scene.faults(name) == []
    assert {scope for _, _, scope in issuer.given} >= {"read write"}
    assert [program for _, program, _ in issuer.given if program.startswith("Java")] == [], "the JVM has no login"


@pytest.mark.long
@pytest.mark.parametrize("spark", [False, True], ids=["this process", "Spark"])
def test_a_token_of_seconds_is_renewed_in_the_middle_of_a_read(scene, issuer, spark):
    name = scene.make(f"renewed{int(spark)}", records=MANY, size=LARGE, spark=spark)
    scene.broker.throttle(SLOW)
    issuer.seconds = 4.0
    issuer.given.clear()

    done = scene("run", name, "--json")

    assert done.returncode == 0, done.stderr
    assert scene.faults(name) == []
    times = [at for at, _, _ in issuer.given]
    assert times[-1] - times[0] > 2 * issuer.seconds, issuer.given
    assert len(times) >= 4


@pytest.mark.long
@pytest.mark.parametrize("spark", [False, True], ids=["this process", "Spark"])
def test_a_read_whose_token_ends_for_good_is_one_line_and_the_next_run_does_the_batch(scene, issuer, spark):
    name = scene.make(f"ended{int(spark)}", records=MANY, size=LARGE, spark=spark)
    scene.broker.throttle(SLOW)
    issuer.seconds = 4.0
    issuer.given.clear()

    running = scene.begin("run", name)
    until = time.monotonic() + 60
    while len(issuer.given) < (IN_A_TASK if spark else 4):
        assert time.monotonic() < until
        time.sleep(0.05)
    issuer.trouble = (401, b'{"error": "invalid_client", "error_description": "gone"}')
    out, err = running.communicate(timeout=240)

    assert running.returncode == Exit.AWAY, out + err
    assert len(err.strip().splitlines()) == 1, err
    assert "Traceback" not in out + err
    issuer.trouble, issuer.seconds = None, 3600.0
    again = scene("run", name, "--until-idle")
    assert again.returncode == 0, again.stderr
    assert scene.faults(name) == []


WRONG = {
    "a mistyped name": ({"sasl.oauthbearer.client.secrett": "s"}, (), "sasl.oauthbearer.client.secrett is not on the list"),
    "no secret": ({}, ("sasl.oauthbearer.client.secret",), "sasl.oauthbearer.client.secret is not set"),
    "no address": ({"sasl.oauthbearer.token.endpoint.url": "host/token"}, (), "token.endpoint.url: it is no address"),
    "no protocol": ({}, ("security.protocol",), "sasl.mechanism goes with security.protocol SASL_SSL"),
    "another way": ({"sasl.oauthbearer.method": "default"}, (), "sasl.oauthbearer.method: default is not one of oidc"),
}  # fmt: skip


@pytest.mark.long
def test_five_wrong_settings_are_one_line_each_with_the_field_and_the_next_command(scene):
    name = scene.make("wrong")
    for what, (others, without, words) in WRONG.items():
        options = {key: value for key, value in (scene.broker.options() | others).items() if key not in without}
        refused = scene("plan", name, options=options)
        assert refused.returncode == Exit.REFUSED, (what, refused.stderr)
        assert len(refused.stderr.strip().splitlines()) == 1, (what, refused.stderr)
        assert words in refused.stderr, what
        assert "  Next: correct LOCKSTEP_KAFKA_CONFIG" in refused.stderr, what
        assert faults_of(refused.stderr) == [], what
        assert scene.broker.issuer.secret not in refused.stderr, what


@pytest.mark.long
def test_a_forged_token_is_refused_in_one_line(scene, issuer):
    name = scene.make("forged")
    issuer.forged = True
    refused = scene("plan", name)
    assert refused.returncode == Exit.AWAY
    assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr
    assert f"Kafka at {scene.broker.address} does not answer, or does not let us in" in refused.stderr
    assert "invalid_token" in refused.stderr


@pytest.mark.long
def test_what_the_issuer_repeats_of_a_login_is_in_no_line(scene, issuer):
    name = scene.make("repeated")
    wrong = f"{issuer.secret}-wrong"
    refused = scene("plan", name, options=scene.broker.options() | {"sasl.oauthbearer.client.secret": wrong})
    assert refused.returncode == Exit.AWAY
    assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr
    assert "invalid_client" in refused.stderr
    assert "***" in refused.stderr
    assert issuer.secret not in refused.stderr
