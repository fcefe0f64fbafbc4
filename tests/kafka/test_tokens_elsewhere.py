"""Tests logins by tokens in what is not a read: the relay, an issuer behind TLS, MSK's way, and where a secret stays."""

from __future__ import annotations

import json
import os
import secrets

import pytest

from feed.sending import read_topic
from lockstep.cli.exits import Exit
from support.fakes.issuer import Issuer, serving
from support.oracles.canary import CommandLines, Environments, files_holding, tables_holding
from support.scenes.behind_tokens import DOOR, BehindTokens
from support.servers.certificates import Authority
from support.servers.token_broker import token_broker

pytestmark = pytest.mark.long
# What AWS's own package has: a module that signs. This one asks the test's issuer.
SIGNER = """
import json, time, urllib.request
def generate_auth_token(region):
    assert region == "eu-west-1", region
    asked = urllib.request.Request({url!r}, b"grant_type=client_credentials", {{"Authorization": {login!r}}})
    found = json.loads(urllib.request.urlopen(asked).read())
    return found["access_token"], (time.time() + found["expires_in"]) * 1000
"""
MSK = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "AWS_MSK_IAM", "aws.region": "eu-west-1"}


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """Returns a broker whose issuer speaks TLS, and the authority of its certificate."""
    home = tmp_path_factory.mktemp("tokens")
    ours = Authority(home, "ours")
    issuer = Issuer(f"canary-{secrets.token_hex(8)}")
    behind_tls = Issuer('a "quoted" \\ secret; with = signs', ours.identity("issuer"))
    behind_tls.sign_as(issuer)
    with serving(issuer), serving(behind_tls), token_broker(home, issuer) as broker:
        yield broker, behind_tls, ours


@pytest.fixture
def scene(locked, database, tmp_path):
    yield BehindTokens(locked[0], database, tmp_path / "pipelines")
    locked[0].issuer.seconds = 3600.0


@pytest.mark.parametrize("spark", [False, True], ids=["this process", "Spark"])
def test_an_issuer_behind_tls_is_trusted_by_its_own_authority_alone(locked, scene, spark):
    _, behind_tls, ours = locked
    name = scene.make(f"tls{int(spark)}", spark=spark)
    strange = Authority(scene.home.parent, "strange")
    options = scene.broker.options() | {
        "sasl.oauthbearer.client.secret": behind_tls.secret,
        "sasl.oauthbearer.token.endpoint.url": f"{behind_tls.url}/token",
        "sasl.oauthbearer.extensions": "traceId=t 1,poolId=p-1",
    }

    refused = scene("plan", name, options=options | {"https.ca.location": str(strange.ca)})
    done = scene("run", name, "--until-idle", options=options | {"https.ca.location": str(ours.ca)})

    assert refused.returncode == Exit.AWAY
    assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr
    assert done.returncode == 0, done.stderr
    assert scene.faults(name) == []


def test_the_relay_sends_a_feed_behind_the_login(scene):
    name = scene.make("sent", feed="sent-feed")

    assert scene("run", name, "--until-idle").returncode == 0
    relayed = scene("relay", name, "--until-idle", "--wait", "0")

    assert relayed.returncode == 0, relayed.stderr
    sent = [record for part in read_topic(scene.broker.plain, "sent-feed").values() for record in part]
    assert sorted(json.loads(value)["n"] for _, value, _ in sent) == list(range(60))


def test_the_token_of_msk_is_signed_here_and_renewed_in_mid_read(scene, tmp_path):
    package = tmp_path / "packages" / "aws_msk_iam_sasl_signer"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    issuer = scene.broker.issuer
    signer = SIGNER.format(url=f"{issuer.url}/token", login=issuer.login)
    (package / "MSKAuthTokenProvider.py").write_text(signer)
    path = os.pathsep.join([str(package.parent), os.environ["PYTHONPATH"]])
    name = scene.make("msk", records=2_500, size=8_000)

    missing = scene("plan", name, options=MSK)
    scene.broker.throttle(1_500_000)
    issuer.seconds = 4.0
    issuer.given.clear()
    done = scene("run", name, "--json", options=MSK, PYTHONPATH=path)

    assert missing.returncode == Exit.REFUSED
    assert missing.stderr.startswith(
        "Kafka option sasl.mechanism: AWS_MSK_IAM needs the package aws-msk-iam-sasl-signer"
    )
    assert len(missing.stderr.strip().splitlines()) == 1
    assert done.returncode == 0, done.stderr
    assert scene.faults(name) == []
    assert len([1 for _, program, _ in issuer.given if program.startswith("Python-urllib")]) >= 6
    (package / "MSKAuthTokenProvider.py").write_text(
        "def generate_auth_token(region):\n    raise OSError('no\\nkeys')\n"
    )
    refused = scene("plan", name, options=MSK, PYTHONPATH=path)
    assert refused.returncode == Exit.AWAY
    assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr
    assert "Traceback" not in refused.stderr


def test_kerberos_is_refused_in_one_line_by_a_librdkafka_without_it(scene):
    name = scene.make("kerberos")
    words = {f"sasl.kerberos.{each}": "x" for each in ("service.name", "principal", "keytab")}
    refused = scene("plan", name, options={"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"} | words)
    assert refused.returncode == Exit.REFUSED
    assert refused.stderr.startswith("Kafka option sasl.mechanism: GSSAPI (Kerberos) is not in this librdkafka")
    assert len(refused.stderr.strip().splitlines()) == 1


@pytest.mark.timeout(900)
def test_the_secret_of_a_login_by_tokens_is_nowhere(scene, monkeypatch, tmp_path):
    monkeypatch.setenv("LOCKSTEP_CANARIES", secrets.token_hex(8))
    mark, secret = f"LOCKSTEP_CANARIES={os.environ['LOCKSTEP_CANARIES']}", scene.broker.issuer.secret
    name, said = scene.make("discreet", spark=True), ""
    logs = {"LOCKSTEP_SPARK_LOG": str(tmp_path / "spark.log"), "LOCKSTEP_SPARK_EVENTS": str(tmp_path / "events")}
    broken = scene.home / name / "transform.py"
    sound = broken.read_text()
    broken.write_text(
        "def transform(r):\n    return r.selectExpr('_stream', '_offset', 'id', 'cast(raise_error(id) as int) as n')\n"
    )
    with CommandLines() as lines, Environments(mark) as environments:
        for codes, command in (({Exit.DATA}, ("run", name)), ({0}, ("status", name)), ({0}, ("batch", "1"))):
            done = scene(*command, **logs)
            assert done.returncode in codes, (command, done.stderr)
            said += done.stdout + done.stderr
        broken.write_text(sound)
        for words in ("run {} --retry --json", "verify {} --deep", "doctor {}"):
            done = scene(*words.format(name).split(), **logs)
            said += done.stdout + done.stderr
        wrong = scene.broker.options() | {"sasl.oauthbearer.client.secret": f"{secret}-wrong"}
        done = scene("plan", name, options=wrong)
        assert done.returncode == Exit.AWAY
        said += done.stdout + done.stderr

    assert scene.faults(name) == []
    assert (tmp_path / "spark.log").read_text()
    assert [file for file in (tmp_path / "events").rglob("*") if file.is_file()]
    assert len(lines.seen) > 20
    assert [command for command in environments.seen if "java" in command and DOOR not in command]
    assert secret not in said
    assert lines.holding(secret) == []
    assert [command for command in environments.holding(secret) if DOOR not in command] == []
    assert tables_holding(secret, scene.dsn, "lockstep", "lockstep_staging", "public") == []
    assert files_holding(secret, tmp_path) == []
