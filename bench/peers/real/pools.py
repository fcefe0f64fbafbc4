"""Draws the values of fields from a seed, and keeps with each how JSON writes it and how COPY reads it."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from peers.copy_text import NULL, escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SEED = 20_261_201
MISSING = object()  # a field that its record does not have
EMOJI_OF_HUNDRED = 36  # titles
ASTRAL = 0xFFFF  # a character above it is a pair of escapes
FIRST = ("Zoë", "Jörg", "Anaïs", "Łukasz", "Mary", "李娜", "Øyvind", "John", "Nuño", "Ayşe", "Влад", "Priya")
LAST = ("Müller", "O'Brien", "Sørensen", "García", "Smith", "Nguyễn", "Kowalski", "van den Berg", "Çelik", "王")
CITIES = (
    "Köln",
    "São Paulo",
    "Zürich",
    "New York",
    "東京",
    "Malmö",
    "Kraków",
    "İzmir",
    "Αθήνα",
    "Dunedin",
    "Reykjavík",
)
WORDS = (
    *("order", "late", "parcel", "grün", "naïve", "refund", "blue", "size", "crème", "left", "door", "two", "wrong"),
    *("straße", "box", "gift", "again", "señor", "call", "before", "noon", "ring", "label", "côté", "weight", "kg"),
)
EMOJI = ("😀", "🚚", "🎁", "👍🏽", "🇩🇪", "💶")
ODD = ('"quoted"', "C:\\temp\\new", "first\nsecond", "a\tb", "50 % / half", "<b>&amp;</b>", "x\r\ny")
AGENTS = (
    "Mozilla/5.0 (X11) Chrome/{0}.0.{1}.0",
    "shop-ios/{0}.{1} (iPhone 15)",
    "shop-android/{0}.{1} (Pixel 8)",
)
FLAGS = ("paid", "gift", "returned", "express", "is_test")


@dataclass(frozen=True, slots=True)
class Pool:
    """The values of one field or of several, by number: as JSON, as JSON by Python's default, and as COPY's text.

    JSON begins with a comma, and is empty for a missing field.
    """

    written: tuple[str, ...]
    dumped: tuple[str, ...]
    copied: tuple[str, ...]

    @property
    def size(self) -> int:
        """Returns the number of values, which may repeat."""
        return len(self.copied)


def pool(name: str, values: Iterable[Any], write: Callable[[Any], str] | None = None) -> Pool:
    """Returns the pool of a text field. `write` makes JSON of a value, other than Python's default does."""
    write, kept = write or _as_utf8, list(values)
    return Pool(
        tuple(_field(name, value, write) for value in kept),
        tuple(_field(name, value, json.dumps) for value in kept),
        tuple(NULL if value is None or value is MISSING else escaped(value) for value in kept),
    )


def pools(seed: int = SEED) -> dict[str, Pool]:
    """Returns the pools of all fields whose values are not computed from a record's number."""
    drawn = random.Random(seed)  # noqa: S311 - the same for each run, and no secret
    return {
        "customer": pool("customer", (f"{drawn.choice(FIRST)} {drawn.choice(LAST)}" for _ in range(120))),
        "ip": pool("ip", _with_gaps(drawn, [_address(drawn) for _ in range(4_000)], nulls=0, missing=4)),
        "app_version": pool("app_version", (_version(drawn) for _ in range(60))),
        "url": pool("url", (_url(drawn) for _ in range(500)), lambda value: _as_utf8(value).replace("/", "\\/")),
        "user_agent": pool("user_agent", (_agent(drawn) for _ in range(100))),
        "title": pool("title", _titles(drawn, 1_000)),
        "note": pool("note", _with_gaps(drawn, [_note(drawn) for _ in range(1_000)], nulls=20, missing=10), _mixed),
        "city": pool("city", _with_gaps(drawn, [drawn.choice(CITIES) for _ in range(100)], nulls=6, missing=0), _mixed),
        "flags": _flags(),
        "context": _contexts(drawn, 300),
    }


def _field(name: str, value: Any, write: Callable[[Any], str]) -> str:
    return "" if value is MISSING else f',"{name}":{write(value)}'


def _as_utf8(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _mixed(value: Any) -> str:
    """Writes every other text with escapes, and characters that would be a pair of them as they are."""
    is_escaped = value is not None and len(value) % 2 == 1 and all(ord(letter) <= ASTRAL for letter in value)
    return json.dumps(value, ensure_ascii=is_escaped)


def _with_gaps(drawn: random.Random, values: list[Any], *, nulls: int, missing: int) -> list[Any]:
    """Puts null and nothing in place of so many of a hundred values."""
    gaps = [None] * (len(values) * nulls // 100) + [MISSING] * (len(values) * missing // 100)
    mixed = gaps + values[len(gaps) :]
    drawn.shuffle(mixed)
    return mixed


def _address(drawn: random.Random) -> str:
    return ".".join(str(drawn.randrange(1, 255)) for _ in range(4))


def _version(drawn: random.Random) -> str:
    return f"{drawn.randrange(1, 9)}.{drawn.randrange(20)}.{drawn.randrange(9)}"


def _url(drawn: random.Random) -> str:
    return f"https://shop.example/{drawn.choice(WORDS)}/{drawn.randrange(1_000)}"


def _agent(drawn: random.Random) -> str:
    return drawn.choice(AGENTS).format(drawn.randrange(80, 130), drawn.randrange(1_000, 9_999))


def _titles(drawn: random.Random, number: int) -> list[str]:
    """Returns titles in random order. Exactly 36 of 100 have an emoji."""
    plain = [" ".join(drawn.choices(WORDS, k=3)) for _ in range(number)]
    titles = [
        f"{title} {drawn.choice(EMOJI)}" if index < number * EMOJI_OF_HUNDRED // 100 else title
        for index, title in enumerate(plain)
    ]
    drawn.shuffle(titles)
    return titles


def _note(drawn: random.Random) -> str:
    return " ".join([*drawn.choices(WORDS, k=2), drawn.choice(ODD), drawn.choice(WORDS)])


def _flags() -> Pool:
    """Returns all combinations of five booleans. `gift` may also be null."""
    values = list(product((True, False), (True, False, None), *[(True, False)] * 3))
    written = tuple(
        "," + json.dumps(dict(zip(FLAGS, each, strict=True)), separators=(",", ":"))[1:-1] for each in values
    )
    texts = {True: "t", False: "f", None: NULL}
    return Pool(written, written, tuple("\t".join(texts[flag] for flag in each) for each in values))


def _contexts(drawn: random.Random, number: int) -> Pool:
    """Returns nested objects, which JSON writes without spaces and without escapes."""
    values = [
        {
            "device": {"os": drawn.choice(("iOS", "Android")), "version": _version(drawn)},
            "tags": [drawn.choice(WORDS)],
            "score": drawn.randrange(1_000) / 8,
        }
        for _ in range(number)
    ]
    texts = [json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in values]
    written = tuple(f',"context":{text}' for text in texts)
    return Pool(written, written, tuple(map(escaped, texts)))
