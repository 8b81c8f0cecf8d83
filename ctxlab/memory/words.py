"""The words by which a text is found: one rule for what is stored and for what is asked.

- Text is compared in one form (NFKC, case folded), so composed and decomposed letters are the same.
- A run of a script that is written without spaces (Chinese, Japanese, Thai, ...; Korean too, for its particles) gives
  each character and each pair of neighbours. Chinese words are mostly two characters long: FTS5's ``trigram`` cannot
  find those, and its ``unicode61`` takes a whole clause as one word. Lucene's CJKBigramFilter does the same as here.
- A Latin word with marks gives two words, with them and without: ``ca phe`` finds ``cà phê``, and ``bạn`` prefers
  ``bạn`` to ``bàn``. ``unicode61 remove_diacritics 2`` knows one form only, and leaves ``đ`` as it is.
- An English plural or third person loses its s (Harman 1991, "How effective is suffixing?", the S-stemmer).

Words hold letters, digits and marks only, so that nothing that a user writes is ever search syntax.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby, pairwise

LONGEST_WORD = 64
"""Characters of a word that count; what is beyond is cut off (picked: longer ones are data, not words)."""

_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # ideographic iteration mark, closing mark and zero
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),  # Katakana for Ainu
    (0x3400, 0x4DBF),  # Han, extension A
    (0x4E00, 0x9FFF),  # Han
    (0xAC00, 0xD7AF),  # Hangul
    (0xF900, 0xFAFF),  # Han, compatibility
    (0x20000, 0x3FFFF),  # Han, extensions B and later
)
_STROKES = str.maketrans("đłøħŧı", "dlohti")  # letters whose stroke is no mark that a decomposition would show


def words_of(text: str) -> list[str]:
    """The words of ``text`` in order, repeated as they occur. No text raises.

    >>> words_of("Where's the café?")
    ['where', 's', 'the', 'cafe', 'café']
    >>> words_of("我住在上海")
    ['我', '住', '在', '上', '海', '我住', '住在', '在上', '上海']
    """
    words: list[str] = []
    for unspaced, run in _runs(one_form(text)):
        if unspaced:
            words += run
            words += [before + after for before, after in pairwise(run)]
        else:
            words += _spaced(run)
    return words


def one_form(text: str) -> str:
    """NFKC, case folded; lone surrogates (which no database takes) become U+FFFD.

    >>> one_form("Ｃafe\\u0301") == "café"
    True
    """
    clean = storable(text)
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", clean).casefold())


def storable(text: str) -> str:
    """``text`` with each lone surrogate, which has no UTF-8 form, as U+FFFD."""
    return "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in text)


def _runs(text: str) -> Iterator[tuple[bool, str]]:
    """Runs of letters, digits and marks, each with whether its script is written without spaces."""
    for kind, run in groupby(text, _kind):
        if kind is not None:
            yield kind, "".join(run)


@lru_cache(maxsize=65_536)
def _kind(letter: str) -> bool | None:
    """Whether the letter's script is written without spaces; None for what is no letter, digit or mark."""
    if unicodedata.category(letter)[0] not in "LNM":
        return None
    code = ord(letter)
    return any(first <= code <= last for first, last in _UNSPACED)


def _spaced(word: str) -> list[str]:
    bare = _stem(_without_marks(word))[:LONGEST_WORD]
    marked = word[:LONGEST_WORD]
    return [bare] if word.isascii() or bare == marked or not bare else [bare, marked]


def _without_marks(word: str) -> str:
    """The word without the marks on its Latin letters. Marks of other scripts are letters in their own right."""
    if word.isascii():
        return word
    kept: list[str] = []
    latin = False
    for letter in unicodedata.normalize("NFD", word):
        if unicodedata.category(letter) != "Mn":
            latin = unicodedata.name(letter, "").startswith("LATIN")
        elif latin:
            continue
        kept.append(letter)
    return unicodedata.normalize("NFC", "".join(kept)).translate(_STROKES)


def _stem(word: str) -> str:
    """Harman's S-stemmer: the first rule whose ending fits decides."""
    if not word.isascii() or len(word) < 4 or not word.endswith("s"):
        return word
    if word.endswith("ies"):
        return word if word.endswith(("eies", "aies")) else word[:-3] + "y"
    if word.endswith("es"):
        return word if word.endswith(("aes", "ees", "oes")) else word[:-1]
    return word if word.endswith(("us", "ss")) else word[:-1]
