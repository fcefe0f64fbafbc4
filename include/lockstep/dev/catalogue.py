"""Lists all sample data: one sample for each shipped pipeline but `payments`, whose Avro needs a schema registry."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lockstep.dev.records.samples import Sample, SampleRecord, click, draw, instant, order

if TYPE_CHECKING:
    from collections.abc import Callable

_LATER = 50
_KINDS = ("opened", "closed", "moved", "measured")
_PAGES = ("/", "/search", "/basket", "/checkout", "/account", "/offers")
_SHOPS = ("North", "East", "South", "West")
_SECONDS_A_SALE = 10
_LATE_SECONDS, _VERY_LATE_SECONDS = 5_400, 21_600
_FAST_SALE, _FAST_SECONDS = 2_718, 2_303_683_200  # one sale of 4,000 has a clock that is 73 years fast
_COUNTRIES = ("de", "at", "ch", "fr", "dk")
_LINE = '{{\\"sku\\":\\"s-{:04d}\\",\\"quantity\\":{},\\"price\\":\\"{}.{:02d}\\"}}'

_AUTHORS = ("Zoë", "Łukasz", "さくら", "O'Brien", " Ana 🌻")
_BODIES = ("Fits well 👍", "Zu groß", "最高", "Sent it back.\nTwice.", "")
_ASPECTS = ("fit", "fabric", "delivery")
# The ways in which a review can be unusable.
_UNUSABLE: tuple[Callable[[str], bytes], ...] = (
    lambda value: value[: len(value) // 2].encode(),  # cut off
    lambda value: value.replace('"time": "', '"time": "yesterday, ').encode(),  # no time
    lambda value: value.replace("/shop", "/café").encode("latin-1", "replace"),  # no UTF-8
    lambda value: f"[{value}]".encode(),  # a list
)


def basket(place: int, seed: int) -> SampleRecord:
    """Returns one version of a basket, with one to three lines. The second one follows fifty records later."""
    number = place - _LATER if place // _LATER % 2 else place
    drawn = draw(place, seed)
    lines = ",".join(
        _LINE.format((drawn >> 8 * line) % 2_000, 1 + (drawn >> line) % 4, 1 + (drawn >> 16 + line) % 90, drawn % 100)
        for line in range(1 + drawn % 3)
    )
    key = f"b-{number:09d}"
    value = (
        f'{{"basket_id":"{key}","customer":"c-{(drawn >> 8) % 5_000:04d}",'
        f'"placed_at":"{instant(place)}","lines":"[{lines}]"}}'
    )
    return SampleRecord(key.encode(), value.encode())


def event(place: int, seed: int) -> SampleRecord:
    """Returns one event of a device."""
    drawn = draw(place, seed)
    device = f"d-{drawn % 500:03d}"
    value = (
        f'{{"event_id":"e-{place:012d}","device":"{device}","kind":"{_KINDS[(drawn >> 9) % len(_KINDS)]}",'
        f'"reading":{(drawn >> 11) % 10_000 / 100},"at":"{instant(place // 50)}"}}'
    )
    return SampleRecord(device.encode(), value.encode())


def heartbeat(place: int, seed: int) -> SampleRecord:
    """Returns one heartbeat of a device, which tells its battery in percent."""
    drawn = draw(place, seed)
    device = f"d-{place % 500:03d}"
    value = f'{{"device":"{device}","battery":{drawn % 101},"at":"{instant(place // 50)}"}}'
    return SampleRecord(device.encode(), value.encode())


def invoice(place: int, seed: int) -> SampleRecord:
    """Returns one invoice."""
    drawn = draw(place, seed)
    key = f"i-{place:09d}"
    value = (
        f'{{"invoice_id":"{key}","customer":"c-{drawn % 5_000:04d}",'
        f'"total":"{(drawn >> 13) % 9_000}.{(drawn >> 27) % 100:02d}","issued_at":"{instant(place * 30)}"}}'
    )
    return SampleRecord(key.encode(), value.encode())


def page_view(place: int, seed: int) -> SampleRecord:
    """Returns one view of a page."""
    drawn = draw(place, seed)
    visitor = f"v-{drawn % 3_000:04d}"
    value = f'{{"page":"{_PAGES[(drawn >> 12) % len(_PAGES)]}","visitor":"{visitor}","at":"{instant(place // 100)}"}}'
    return SampleRecord(visitor.encode(), value.encode())


def review(place: int, seed: int) -> SampleRecord:
    """Returns one review as a CloudEvent, with up to three ratings. One in a hundred is unusable.

    Half of them have escapes for what is not ASCII, an emoji for example. The others have it in UTF-8.
    """
    drawn = draw(place, seed)
    product = f"p-{(drawn >> 8) % 800:03d}"
    data = {
        "productId": product,
        "author": {"displayName": _AUTHORS[drawn % len(_AUTHORS)], "countryCode": _COUNTRIES[(drawn >> 4) % 5]},
        "text": _BODIES[(drawn >> 18) % len(_BODIES)],
        "ratings": [
            {"aspect": each, "stars": 1 + (drawn >> 24 + n) % 5} for n, each in enumerate(_ASPECTS[: place % 4])
        ],
    }
    event = {"specversion": "1.0", "type": "review.posted", "source": "/shop", "id": f"r-{place:09d}"}
    value = json.dumps({**event, "time": instant(place * 20), "data": data}, ensure_ascii=bool(drawn >> 32 & 1))
    if (drawn >> 40) % 100 == 0:
        return SampleRecord(product.encode(), _UNUSABLE[(drawn >> 50) % len(_UNUSABLE)](value))
    return SampleRecord(product.encode(), value.encode())


def sale(place: int, seed: int) -> SampleRecord:
    """Returns one sale. One in fifty is up to 90 minutes late, one in a hundred six hours. A few are of 2099."""
    drawn = draw(place, seed)
    late = _VERY_LATE_SECONDS if drawn % 100 == 0 else (drawn >> 11) % _LATE_SECONDS if drawn % 50 == 1 else 0
    at = max(0, place * _SECONDS_A_SALE - late)  # none is older than the topic
    if place % 4_000 == _FAST_SALE:
        at += _FAST_SECONDS
    key = f"s-{place:09d}"
    value = (
        f'{{"sale_id":"{key}","shop":"{_SHOPS[(drawn >> 24) % len(_SHOPS)]}",'
        f'"amount":"{1 + (drawn >> 30) % 200}.{(drawn >> 40) % 100:02d}","sold_at":"{instant(43_200 + at)}"}}'
    )
    return SampleRecord(key.encode(), value.encode())


def signup(place: int, seed: int) -> SampleRecord:
    """Returns one signup. One in ten is a load test's, and one in forty has no usable address."""
    drawn = draw(place, seed)
    key = f"u-{place:09d}"
    address = f"{key} at example" if (drawn >> 8) % 40 == 0 else f"{key}@example.org"
    source = "load-test" if drawn % 10 == 0 else "web"
    value = (
        f'{{"signup_id":"{key}","email":"{address}","country":"{_COUNTRIES[(drawn >> 16) % len(_COUNTRIES)]}",'
        f'"source":"{source}","at":"{instant(place * 2)}"}}'
    )
    return SampleRecord(key.encode(), value.encode())


SAMPLES = {
    sample.name: sample
    for sample in (
        Sample("orders", "orders.v1", order),
        Sample("clicks", "clicks.v1", click),
        Sample("spend", "orders.v1", order),
        Sample("baskets", "baskets.v1", basket),
        Sample("events", "events.v1", event),
        Sample("heartbeats", "heartbeats.v1", heartbeat),
        Sample("invoices", "invoices.v1", invoice),
        Sample("page_views", "page_views.v1", page_view),
        Sample("reviews", "reviews.v1", review),
        Sample("sales", "sales.v1", sale),
        Sample("sold", "sales.v1", sale),
        Sample("signups", "signups.v1", signup),
    )
}
