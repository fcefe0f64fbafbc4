"""Says in one line why an object store has refused, by the words of Arrow's client. It gives nothing but text."""

from __future__ import annotations

from typing import NamedTuple

CONFIG = "LOCKSTEP_LAKE_CONFIG"
TO_CORRECT = f"correct {CONFIG}, then lockstep doctor"
NO_STORE = "what answers there is no object store"
NO_BUCKET = "NO_SUCH_BUCKET"
NO_KEY = ("INVALID_ACCESS_KEY_ID", "XAdminUserNotFound", "INVALID_CLIENT_TOKEN_ID")
EXPIRED = ("EXPIRED_TOKEN", "ExpiredToken", "REQUEST_EXPIRED", "TokenRefreshRequired")
STORE_SKEWED = ("REQUEST_TIME_TOO_SKEWED", "RequestTimeTooSkewed")
OTHER_REGION = ("PermanentRedirect", "AuthorizationHeaderMalformed", "HTTP status 301")
BUSY = ("SLOW_DOWN", "THROTTLING", "SERVICE_UNAVAILABLE", "INTERNAL_FAILURE", "HTTP status 5")
STORE_AWAY = ("NETWORK_CONNECTION", "curlCode", "REQUEST_TIMEOUT")


class StoreAnswer(NamedTuple):
    """The meaning of a store's error. Another try of the same may help if the store was `away`."""

    why: str
    next_command: str = TO_CORRECT
    away: bool = False


# Words of the error, in the order in which they are looked for.
ANSWERS = (
    (NO_KEY, StoreAnswer("the store does not know the access key")),
    (("SIGNATURE_DOES_NOT_MATCH",), StoreAnswer("the secret key is not the one of the access key")),
    (EXPIRED, StoreAnswer("the session token has expired")),
    (("InvalidToken", "UNRECOGNIZED_CLIENT"), StoreAnswer("the store does not take the session token")),
    (STORE_SKEWED, StoreAnswer("the clock of this machine is not the store's", "set the clock, then lockstep doctor")),
    (
        (NO_BUCKET, "RESOURCE_NOT_FOUND"),
        StoreAnswer("there is no such bucket", f"look at LOCKSTEP_LAKE and at s3.endpoint in {CONFIG}"),
    ),
    (OTHER_REGION, StoreAnswer("the bucket is not in the region of s3.region")),
    (("ACCESS_DENIED",), StoreAnswer("this login may not do that there")),
    (BUSY, StoreAnswer("the store is too busy", "lockstep doctor", away=True)),
    (STORE_AWAY, StoreAnswer("no store answers", away=True)),
    (("AWS Error",), StoreAnswer(NO_STORE)),
)


def store_answer(text: str) -> StoreAnswer | None:
    """Returns the meaning of a store's error, or None for an error of another kind."""
    return next((answer for words, answer in ANSWERS if any(word in text for word in words)), None)
