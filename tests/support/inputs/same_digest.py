"""Makes texts with a wanted hash. Postgres hashes with a function that can be turned round, so that no search is needed."""

from __future__ import annotations

import random
import struct

WORD = 2**32
BEGIN = (0x9E3779B9 + 12 + 3923095) % WORD  # where the hash of twelve bytes begins, with 0 for a seed
MIX = (
    ("a", "c", 4, "b"),
    ("b", "a", 6, "c"),
    ("c", "b", 8, "a"),
    ("a", "c", 16, "b"),
    ("b", "a", 19, "c"),
    ("c", "b", 4, "a"),
)
FINAL = (("c", "b", 14), ("a", "c", 11), ("b", "a", 25), ("c", "b", 16), ("a", "c", 4), ("b", "a", 14), ("c", "b", 24))


def text_of_hash(wanted: int) -> str:
    """Returns a text of twelve ASCII letters or control characters whose `hashtextextended(text, 0)` is this number."""
    draw = random.Random(1)  # noqa: S311 - any numbers will do
    while True:
        words = {"a": draw.randrange(WORD), "b": wanted // WORD % WORD, "c": wanted % WORD}
        for x, y, bits in reversed(FINAL):  # x ^= y; x -= rotated(y)
            words[x] = (words[x] + _rotated(words[y], bits)) % WORD ^ words[y]
        for x, y, bits, z in reversed(MIX):  # x -= y; x ^= rotated(y); y += z
            words[y] = (words[y] - words[z]) % WORD
            words[x] = ((words[x] ^ _rotated(words[y], bits)) + words[y]) % WORD
        found = struct.pack("<3I", *((words[x] - BEGIN) % WORD for x in "abc"))
        if found.isascii() and 0 not in found:
            return found.decode()


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) % WORD


def forged_row(hashes: dict[str, int]) -> str:
    """Returns the text that a row's first column must have, so that another number in its second keeps the row's hash.

    `hashes` are those of the text, of the number, and of the `other` number. A record's hash multiplies by 31 and adds.
    """
    more = (hashes["number"] - hashes["other"]) * pow(31, -1, 2**64)
    return text_of_hash((hashes["text"] + more) % 2**64)
