"""Words of a text as Lucene's English analysis finds them: what a product is indexed and searched by.

The chain is StandardTokenizer (Unicode's UAX #29 word breaks, a token for each pictograph), removal of a
possessive 's, lower case, Lucene's English stop words, and Porter's stemmer as Lucene has it.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import Any

_STOP_WORDS = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these
they this to was will with
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Lucene's English stop words."""
LONGEST = 255
"""Longest token in characters; longer ones are cut into pieces."""

# The class of a character is a letter: L letter, N digit, K katakana, E connector, X what extends the
# character before it, H Han or hiragana (a token each), T Thai and the like (a run is a token), P pictograph,
# and what joins: M letters, D digits, B both, Q the apostrophe, which joins both too.
_JOINERS = {
    **dict.fromkeys(":··՟״‧︓﹕：", "M"),
    **dict.fromkeys(".‘’․﹒＇．", "B"),
    **dict.fromkeys(",;;։،؍٬߸⁄︐︔﹐﹔，；", "D"),
    "'": "Q",
}
_EXTENDED = "(?:EX*+)"
_DIGITS = f"NX*+(?:(?:{_EXTENDED}*|[DBQ]X*+)NX*+)*"
_LETTERS = f"LX*+(?:(?:{_EXTENDED}*|[MBQ]X*+)LX*+)*"
_KATAKANA = f"KX*+(?:{_EXTENDED}*KX*+)*"
_PART = f"(?:{_KATAKANA}|(?:{_DIGITS}|{_LETTERS})+)"
# The first alternative is the common case, for speed alone; the last eats connectors that hold no word, so
# that a long run of them is walked once.
_TOKEN = re.compile(
    "([LN]++(?![EXMBDQ])"
    f"|{_EXTENDED}*+{_PART}(?:{_EXTENDED}+{_PART})*{_EXTENDED}*|(?:TX*+)+|[HP]X*+)|{_EXTENDED}+"
)
# Unicode 12's Extended_Pictographic, which Lucene 9 was built with.
_PICTOGRAPHS = """
a9 ae 203c 2049 2122 2139 2194-2199 21a9-21aa 231a-231b 2328 2388 23cf 23e9-23f3 23f8-23fa 24c2 25aa-25ab 25b6
25c0 25fb-25fe 2600-2605 2607-2612 2614-2685 2690-2705 2708-2712 2714 2716 271d 2721 2728 2733-2734 2744 2747
274c 274e 2753-2755 2757 2763-2767 2795-2797 27a1 27b0 27bf 2934-2935 2b05-2b07 2b1b-2b1c 2b50 2b55 3030 303d
3297 3299 1f000-1f0ff 1f10d-1f10f 1f12f 1f16c-1f171 1f17e-1f17f 1f18e 1f191-1f19a 1f1ad-1f1e5 1f201-1f20f
1f21a 1f22f 1f232-1f23a 1f23c-1f23f 1f249-1f3fa 1f400-1f53d 1f546-1f64f 1f680-1f6ff 1f774-1f77f 1f7d5-1f7ff
1f80c-1f80f 1f848-1f84f 1f85a-1f85f 1f888-1f88f 1f8ae-1f8ff 1f90c-1f93a 1f93c-1f945 1f947-1fffd
"""


@functools.cache
def _pictographs() -> frozenset[int]:
    spans = (span.partition("-") for span in _PICTOGRAPHS.split())
    return frozenset(
        code for first, _, last in spans for code in range(int(first, 16), int(last or first, 16) + 1)
    )


class _Classes(dict[int, str]):
    """The class of each character, found when it is first met."""

    def __missing__(self, code: int) -> str:
        kind = self[code] = _class_of(code)
        return kind


_CLASSES = _Classes()


def _class_of(code: int) -> str:
    char = chr(code)
    if char in _JOINERS:
        return _JOINERS[char]
    if code in _pictographs():
        return "P"
    category = unicodedata.category(char)
    if category in ("Mn", "Mc", "Me") or (category == "Cf" and code != 0x200B):
        return "X"
    if category == "Nd":
        return "N"
    if category == "Pc" or code == 0x202F:
        return "E"
    if _within(code, (0x3041, 0x309A), (0x309D, 0x309F)) or _is_han(code):
        return "H"
    if _within(code, (0x3031, 0x3035), (0x309B, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F)):
        return "K"
    if not (char.isalpha() or category == "Nl"):
        return " "
    return "T" if _within(code, (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF)) else "L"


def _is_han(code: int) -> bool:
    return code in (0x3005, 0x3007) or _within(
        code, (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF)
    )


def _within(code: int, *spans: tuple[int, int]) -> bool:
    return any(first <= code <= last for first, last in spans)


def tokens(text: str) -> list[str]:
    """The raw tokens of a text, in order."""
    found = (text[m.start() : m.end()] for m in _TOKEN.finditer(text.translate(_CLASSES)) if m[1])
    return [token[at : at + LONGEST] for token in found for at in range(0, len(token), LONGEST)]


def words(text: str) -> list[str]:
    """The stemmed words of a text, in order, as they are indexed and searched."""
    return [word for token in tokens(text) if (word := _word(token))]


@functools.lru_cache(maxsize=1 << 18)
def _word(token: str) -> str:
    """What a token is indexed as; empty for a stop word."""
    if token[-1] in "sS" and token[-2:-1] in ("'", "’", "＇"):
        token = token[:-2]
    token = token.lower()
    return "" if token in STOP_WORDS else stem(token)


@functools.cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("porter", 0)


def stem(word: str) -> str:
    """Porter's stem as Lucene has it: words of two letters stay, and -bli and -logi are endings too."""
    if len(word) <= 2:
        return word
    stemmer = _stemmer()
    found: str = stemmer.stemWord(word)
    if found.endswith("bli") and _has_measure(found[:-3]):
        return str(stemmer.stemWord(found[:-1] + "e"))
    return found[:-1] if found.endswith("logi") and _has_measure(found[:-4]) else found


def _has_measure(part: str) -> bool:
    """Whether a consonant follows a vowel somewhere in `part` (Porter's m > 0)."""
    vowel = False
    for index, char in enumerate(part):
        now = char in "aeiou" or (char == "y" and index > 0 and not vowel)
        if vowel and not now:
            return True
        vowel = now
    return False
