"""Tests that a partition without a leader is asked again, and not for ever."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from lockstep.adapters.kafka import election as kafka_election


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(kafka_election, "SECONDS", 0.2)
    monkeypatch.setattr(kafka_election, "PAUSE", 0.01)


def answering(*answers: Any):
    """Returns a function that gives one answer after another, and the last one for ever."""
    left = list(answers)

    def ask() -> list[dict[int, SimpleNamespace]]:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, int) and answer > 0:
            raise KafkaException(KafkaError(answer))
        return [{0: SimpleNamespace(offset=7)}, {1: SimpleNamespace(offset=answer)}]

    return ask


def test_who_has_a_leader_again_is_believed():
    restarted = (KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH)
    ask = answering(KafkaError.NOT_LEADER_FOR_PARTITION, OFFSET_INVALID, *restarted, 0)
    assert [[each.offset for each in answers.values()] for answers in kafka_election.settled_answers(ask)] == [[7], [0]]


@pytest.mark.parametrize("answer", [KafkaError.LEADER_NOT_AVAILABLE, OFFSET_INVALID])
def test_who_gets_none_is_an_error_in_the_end(answer):
    with pytest.raises(KafkaException) as said:
        kafka_election.settled_answers(answering(answer))
    assert said.value.args[0].code() == KafkaError.LEADER_NOT_AVAILABLE


def test_another_error_is_not_waited_out():
    ask = answering(KafkaError.TOPIC_AUTHORIZATION_FAILED, 0)
    with pytest.raises(KafkaException):
        kafka_election.settled_answers(ask)
    assert [each.offset for answers in ask() for each in answers.values()] == [7, 0]
