"""What a content part costs that is not plain text: images, audio, files, other vendors' blocks.

The rules are OpenAI's published ones where there are any, and picked numbers, named as such, where there are none.
No part counts as the base64 text that carries it, and none as zero.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from collections.abc import Mapping
from typing import Any

from ctxlab.messages import part_text
from ctxlab.texts import Counter

IMAGE_BASE, IMAGE_TILE = 85, 170
"""Tokens of an image, and of each 512-pixel tile at high detail (OpenAI's vision guide, GPT-4o)."""

IMAGE_UNKNOWN = 765
"""An image whose size is not known, as for 1,024 by 1,024 pixels at high detail (picked)."""

AUDIO_PER_SECOND = 10
"""One token per 100 ms (OpenAI's rule for what a user says)."""

AUDIO_BYTES_PER_SECOND = 16_000
"""Compressed audio is taken to be 128 kbit/s (picked)."""

PAGE = 1_500
"""A page of a PDF, and any other file whose length is not known (picked: the low end of Anthropic's 1,500 to 3,000)."""

BLOB_CHARACTERS = 1_024
"""An unbroken text of this length inside a part of unknown type is data, not words (picked)."""

DEEPEST = 32
"""Blocks inside blocks are read to this depth (picked); what lies deeper counts as data."""

_HOLDERS = ("image_url", "input_audio", "audio", "file", "source", "inline_data", "inlineData")
_URLS = ("url", "file_data", "image_url")
_MIMES = ("media_type", "mime_type", "mimeType", "mediaType")


def part_tokens(part: Any, count: Counter, depth: int = 0) -> int:
    """Tokens of one content part, at least 1 unless it is an empty text.

    Text parts (text, refusal, thinking) count as their text; Anthropic's ``tool_use`` as its name and the JSON of
    its input, ``tool_result`` as its content; images, audio and files by the rules of this module; any other part
    as its JSON, in which long data counts as `IMAGE_UNKNOWN`.
    """
    text = part_text(part)
    if text is not None:
        return count(text)
    if not isinstance(part, Mapping) or depth > DEEPEST:
        return json_tokens(part, count)
    kind = part.get("type")
    if kind in ("refusal", "thinking", "reasoning", "summary_text"):
        words = part.get(kind, part.get("text"))
        return count(words) if isinstance(words, str) else json_tokens(part, count)
    if kind == "tool_use":
        return count(str(part.get("name") or "")) + json_tokens(part.get("input"), count)
    if kind == "tool_result":
        return content_tokens(part.get("content"), count, depth + 1)
    mime, data, detail = _payload(part)
    family = f"{kind or ''} {mime}"
    if "image" in family:
        return image_tokens(mime, data, detail)
    if "audio" in family:
        return audio_tokens(data)
    if kind in ("file", "input_file", "document") or mime:
        return file_tokens(mime, data, count)
    return json_tokens(part, count)


def content_tokens(content: Any, count: Counter, depth: int = 0) -> int:
    """Tokens of a content: text, None, or parts, counted one by one."""
    if content is None:
        return 0
    if isinstance(content, str):
        return count(content)
    if isinstance(content, (list, tuple)):
        return sum(part_tokens(part, count, depth) for part in content)
    return json_tokens(content, count)


def image_tokens(mime: str, data: str | None, detail: str) -> int:
    """``detail: low`` is 85; otherwise by `tile_tokens` where the header says how large it is, else `IMAGE_UNKNOWN`.

    ``detail: auto`` is taken as high. ``data``: base64, or None for an image that is only linked to.
    """
    if detail == "low":
        return IMAGE_BASE
    size = image_size(_decode(data, 400_000)) if data else None
    return tile_tokens(*size) if size else IMAGE_UNKNOWN


def tile_tokens(width: int, height: int) -> int:
    """OpenAI's formula: fit into 2,048 by 2,048, then the shorter side to 768, then 85 + 170 for each 512-pixel tile.

    >>> tile_tokens(1024, 1024), tile_tokens(2048, 4096), tile_tokens(1, 1)
    (765, 1105, 255)
    """
    for longest, limit in ((max(width, height), 2048), (0, 768)):
        reference = longest or min(width, height)
        if reference > limit:
            width, height = width * limit // reference, height * limit // reference
    tiles = max(1, -(-width // 512)) * max(1, -(-height // 512))
    return IMAGE_BASE + IMAGE_TILE * tiles


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels from the header of a PNG, GIF or JPEG; None for anything else."""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return width, height
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        width, height = struct.unpack("<HH", data[6:10])
        return width, height
    if data[:2] == b"\xff\xd8":
        return _jpeg_size(data)
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Walks the segments to the frame header (SOF0 to SOF15 but for DHT, JPG and DAC), which holds the size."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def audio_tokens(data: str | None) -> int:
    """Seconds from a WAV header, else from the size, by `AUDIO_PER_SECOND`; linked audio is a minute (picked)."""
    if not data:
        return 60 * AUDIO_PER_SECOND
    head = _decode(data, 64)
    rate = int.from_bytes(head[28:32], "little") if head[:4] == b"RIFF" else 0
    seconds = len(data) * 3 / 4 / (rate or AUDIO_BYTES_PER_SECOND)
    return max(1, round(seconds * AUDIO_PER_SECOND))


def file_tokens(mime: str, data: str | None, count: Counter) -> int:
    """A text file as its text; a PDF by its pages, `PAGE` each; anything else as one page."""
    if not data:
        return PAGE
    raw = _decode(data)
    if mime.startswith("text/") or mime == "application/json":
        return max(1, count(raw.decode("utf-8", "replace") if raw else data))
    return PAGE * max(1, len(re.findall(rb"/Type\s*/Page(?!s)", raw)))


def json_tokens(value: Any, count: Counter) -> int:
    """Tokens of a value's JSON without spaces; an unbroken text of `BLOB_CHARACTERS` counts as `IMAGE_UNKNOWN`."""
    blobs = 0

    def without_data(item: Any, depth: int) -> Any:
        nonlocal blobs
        if depth > DEEPEST or (isinstance(item, str) and _is_data(item)):
            blobs += 1
            return ""
        if isinstance(item, Mapping):
            return {str(key): without_data(inner, depth + 1) for key, inner in item.items()}
        if isinstance(item, (list, tuple)):
            return [without_data(inner, depth + 1) for inner in item]
        return item

    text = json.dumps(without_data(value, 0), ensure_ascii=False, separators=(",", ":"), default=str)
    return count(text) + blobs * IMAGE_UNKNOWN


def _is_data(text: str) -> bool:
    return text.startswith("data:") or (
        len(text) >= BLOB_CHARACTERS and re.fullmatch(r"[A-Za-z0-9+/_=-]+", text) is not None
    )


def _payload(part: Mapping[str, Any]) -> tuple[str, str | None, str]:
    """The media type ('' if not told), the base64 data (None if only linked), and the detail of a part."""
    mime, data, detail = "", None, str(part.get("detail") or "")
    for holder in (*(part.get(name) for name in _HOLDERS), part):
        inner = {"url": holder} if isinstance(holder, str) else holder
        if not isinstance(inner, Mapping):
            continue
        mime = mime or next((inner[name] for name in _MIMES if isinstance(inner.get(name), str)), "")
        detail = str(inner.get("detail") or detail)
        url = next((inner[name] for name in _URLS if isinstance(inner.get(name), str)), "")
        if url.startswith("data:"):
            head, _, data = url.partition(",")
            mime = mime or head[5:].split(";")[0]
        elif data is None and isinstance(inner.get("data"), str):
            data = inner["data"]
    return mime, data, detail


def _decode(data: str, characters: int | None = None) -> bytes:
    """The bytes of (the first ``characters`` of) a base64 text; empty where it is none."""
    text = data if characters is None else data[:characters]
    try:
        return base64.b64decode(text[: len(text) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""
