"""Completes client options with what a login needs in addition: a callback for MSK, a build with Kerberos."""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException

from lockstep.core.errors import Refusal
from lockstep.core.login.mechanisms import GSSAPI, MSK_IAM
from lockstep.installed import is_installed

if TYPE_CHECKING:
    from lockstep.core.kafka_options import KafkaOptions

SIGNER = "aws_msk_iam_sasl_signer"
MS_A_SECOND = 1000


def login_settings(options: KafkaOptions) -> dict[str, Any]:
    """Returns the options as confluent-kafka takes them, with the callback of their login, if it needs one.

    Raises `Refusal` if this machine's librdkafka, or a package that is missing, does not let it log in so.
    """
    settings: dict[str, Any] = dict(options.for_librdkafka())
    if options.mechanism == GSSAPI:
        _require_kerberos()
    if options.mechanism == MSK_IAM:
        if not is_installed(SIGNER):
            raise Refusal(
                f"Kafka option sasl.mechanism: {MSK_IAM} needs the package aws-msk-iam-sasl-signer-python, which is not here",
                next_command="pip install aws-msk-iam-sasl-signer-python, then lockstep doctor",
            )
        settings["oauth_cb"] = partial(_token_of_msk, dict(options.values)["aws.region"])
    return settings


def _token_of_msk(region: str, _config: str) -> tuple[str, float]:
    """Returns a signed token with the time of its end. The client asks for the next one before that."""
    token, ends_ms = import_module(f"{SIGNER}.MSKAuthTokenProvider").generate_auth_token(region)
    return token, ends_ms / MS_A_SECOND


@cache
def _require_kerberos() -> None:
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": GSSAPI, "log_level": 0}
    try:
        Consumer(login | {"group.id": "lockstep-login", "bootstrap.servers": ""}).close()
    except KafkaException:
        raise Refusal(
            f"Kafka option sasl.mechanism: {GSSAPI} (Kerberos) is not in this librdkafka, which was built without libsasl2",
            next_command="pip install --no-binary confluent-kafka --force-reinstall --no-deps confluent-kafka, with a "
            "librdkafka that has it; docs/kafka.md says how",
        ) from None
