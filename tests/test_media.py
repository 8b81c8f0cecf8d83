"""Images, audio, files and other parts: OpenAI's rule where there is one; never base64 as text, never zero."""

from __future__ import annotations

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxlab.media import audio_tokens, image_size, json_tokens, part_tokens, tile_tokens
from ctxlab.texts import count_tokens
from ctxlab.tokens import count_message


def png(width, height):
    return (
        b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06\0\0\0" + b"\0" * 9_000
    )


def gif(width, height):
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0" * 900


def jpeg(width, height, exif=60_000):
    app1 = b"\xff\xe1" + struct.pack(">H", exif + 2) + b"\0" * exif
    frame = b"\xff\xc2" + struct.pack(">HBHHB", 17, 8, height, width, 3) + b"\0" * 9
    return b"\xff\xd8" + app1 + frame + b"\xff\xd9"


def url(data, mime="image/png"):
    return f"data:{mime};base64,{base64.b64encode(data).decode()}"


def image(address, detail="auto"):
    return {"type": "image_url", "image_url": {"url": address, "detail": detail}}


def count(part):
    return part_tokens(part, count_tokens)


@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [
        (1024, 1024, 765),  # OpenAI's vision guide: 768 x 768, four tiles
        (2048, 4096, 1105),  # the same guide: 1024 x 2048, then 768 x 1536, six tiles
        (1, 1, 255),  # pamelafox/openai-messages-token-helper: one tile
        (512, 512, 255),
        (513, 512, 425),
        (0, 0, 255),
        (100_000, 10, 85 + 4 * 170),  # 2048 wide: four tiles in a row
        (2**31, 2**31, 765),
    ],
)
def test_tiles_follow_openais_formula(width, height, expected):
    assert tile_tokens(width, height) == expected


@pytest.mark.parametrize("data", [png(2048, 4096), gif(2048, 4096), jpeg(2048, 4096)])
def test_the_size_is_read_from_the_header(data):
    assert image_size(data) == (2048, 4096)
    assert count(image(url(data))) == 1105
    assert count(image(url(data), "low")) == 85


def test_fill_bytes_before_a_jpeg_segment_are_stepped_over():
    data = jpeg(300, 200, exif=8)
    assert image_size(data[:2] + b"\xff\xff" + data[2:]) == (300, 200)


def test_other_vendors_shapes_of_an_image_cost_the_same():
    data = base64.b64encode(png(1024, 1024)).decode()
    shapes = [
        {"type": "input_image", "image_url": f"data:image/png;base64,{data}"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
        {"inline_data": {"mime_type": "image/png", "data": data}},
        {"inlineData": {"mimeType": "image/png", "data": data}},
    ]
    assert [count(shape) for shape in shapes] == [765] * 4


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/cat.png",
        "data:image/png;base64,@@@@",
        "data:image/png;base64,",
        "data:image/svg+xml,<svg/>",
        url(b"RIFF"),
    ],
)
def test_an_image_of_unknown_size_counts_as_1024_by_1024(address):
    assert count(image(address)) == 765
    assert count(image(address, "low")) == 85


@pytest.mark.parametrize("cut", [2, 4, 11, 20])
def test_a_header_that_breaks_off_is_an_unknown_size(cut):
    assert image_size(jpeg(10, 10, exif=8)[:cut]) is None
    assert image_size(png(10, 10)[:cut]) is None
    assert image_size(gif(10, 10)[:8]) is None


def test_a_message_with_a_picture_costs_the_picture_and_not_its_base64():
    message = {"role": "user", "content": [{"type": "text", "text": "Describe this picture:"}, image(url(png(1, 1)))]}
    assert count_message(message) == 4 + count_tokens("Describe this picture:") + 255


def test_audio_is_ten_tokens_a_second():
    wav = b"RIFF" + b"\0" * 24 + struct.pack("<I", 32_000) + b"\0" * 12 + b"\0" * 320_000
    part = {"type": "input_audio", "input_audio": {"data": base64.b64encode(wav).decode(), "format": "wav"}}
    assert count(part) == 100
    assert audio_tokens(base64.b64encode(b"\xff\xfb" + b"\0" * 159_998).decode()) == 100  # 10 s at 128 kbit/s
    assert audio_tokens(None) == 600
    assert audio_tokens("AAAA") == 1


def test_a_pdf_counts_by_its_pages_and_a_text_file_by_its_text():
    pdf = b"%PDF-1.7\n/Type /Pages\n" + b"<< /Type /Page >>\n" * 3
    assert count({"type": "file", "file": {"file_data": url(pdf, "application/pdf")}}) == 4_500
    text = base64.b64encode(b"hello world").decode()
    source = {"type": "base64", "media_type": "text/plain", "data": text}
    assert count({"type": "document", "source": source}) == 2
    assert count({"type": "file", "file": {"file_id": "file-123"}}) == 1_500


def test_blocks_of_other_vendors_count_by_what_they_say():
    assert count({"type": "thinking", "thinking": "hello world", "signature": "x" * 900}) == 2
    assert count({"type": "refusal", "refusal": "hello world"}) == 2
    assert count({"type": "tool_use", "id": "t", "name": "f", "input": {}}) == 2
    assert count({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "hello world"}]}) == 2


def test_long_data_in_a_part_of_unknown_type_is_not_counted_as_text():
    assert count({"type": "video", "blob": "A" * 500_000}) < 900
    assert count({"type": "odd"}) >= 1
    assert json_tokens({"words": "a b " * 1_000}, count_tokens) > 1_500  # words are words


def test_parts_inside_parts_without_end_are_counted():
    part: dict = {"type": "tool_result", "content": []}
    part["content"].append(part)
    assert count(part) >= 1
    loop: dict = {"type": "odd"}
    loop["self"] = loop
    assert count(loop) >= 1


parts = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.just("data:image/png;base64,AAAA"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "image_url", "url", "source", "data", "content", "input", "file", "mime_type"]
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(parts)
def test_no_part_raises_and_only_empty_text_is_nothing(part):
    assert count(part) >= 0
    assert count({"type": "image", "source": part}) >= 85
