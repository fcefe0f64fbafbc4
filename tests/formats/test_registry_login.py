"""Tests that the schema registry can be asked by the login at Kafka, by its real client."""

from __future__ import annotations

import pytest

from lockstep.core.kafka_options import kafka_options
from lockstep.core.registry import registry
from lockstep.formats.avro.schemas import Schemas
from support.fakes.issuer import Issuer, serving
from support.fakes.registry import a_registry

SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}]}


def test_a_schema_is_read_with_a_token_of_the_login_at_kafka(monkeypatch):
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")  # the client wants TLS to an issuer
    with serving(Issuer("canary")) as issuer, a_registry() as server:
        issuer.fixed, server.login = "a-token", "Bearer a-token"
        schema_id = server.register("t-value", SCHEMA)
        kafka = kafka_options(
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.client.id": "lockstep",
                "sasl.oauthbearer.client.secret": "canary",
                "sasl.oauthbearer.token.endpoint.url": f"{issuer.url}/token",
                "sasl.oauthbearer.scope": "schemas",
            }
        )
        options = {"bearer.auth.credentials.source": "SASL_OAUTHBEARER_INHERIT", "max.retries": 0}

        text, _ = Schemas(registry(server.url, options, str, kafka)).writer(schema_id)

        assert '"R"' in text
        assert [scope for _, _, scope in issuer.given] == ["schemas"]
        server.login = "Bearer another"
        with pytest.raises(Exception, match="HTTP 4") as refused:
            Schemas(registry(server.url, options, str, kafka)).writer(schema_id)
        assert "canary" not in str(refused.value)
        assert "a-token" not in str(refused.value)
