"""Token counting: cold against tiktoken's own call, and one append against counting the history whole.

    python benchmarks/tokens.py [--megabytes 20] [--rounds 5]

1. *Cold*: 20 MB of chat messages through `count_message`, with nothing remembered, against tiktoken's
   ``encode_ordinary`` on the same texts. The two take turns message block by message block inside one run, so that
   what else the machine does hits both. Goal: at least 0.95 of tiktoken's throughput.
2. *One append*: a history of 10,000 messages that was counted, one more message, and the new total; against counting
   all of it with nothing remembered. Goal: 1,000 times faster.

The messages are made from what every Python has: the prose of the language reference (``pydoc_data``), standard
library source, and generated JSON tool results and calls, plus sentences in Chinese, Japanese and Vietnamese.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import sysconfig
import time
from pathlib import Path
from typing import Any

from ctxlab.tokens import TokenMeter, count_message, estimate_tokens, forget, get_encoding

SENTENCES = (
    "请把昨天的报告再检查一遍，特别是第三节里的数字。",
    "我住在上海，预算不超过五千元，周末之前需要确定。",
    "明日の会議は午後三時からに変更してください。",
    "資料を確認しましたが、二つの点が気になりました。",
    "Xin hãy kiểm tra lại báo cáo trước cuộc họp ngày mai.",
    "Tôi muốn đặt vé tàu từ Hà Nội đến Đà Nẵng.",
)


def messages_of(megabytes: float, seed: int = 7) -> list[dict[str, Any]]:
    """Different chat messages of about ``megabytes`` of UTF-8 together; the same for the same seed."""
    dice = random.Random(seed)
    from pydoc_data.topics import topics

    prose = "\n".join(topics.values())
    library = Path(sysconfig.get_paths()["stdlib"])
    code = "\n".join(path.read_text("utf-8", "replace") for path in sorted(library.glob("[a-p]*.py")))
    made: list[dict[str, Any]] = []
    size = 0
    while size < megabytes * 1e6:
        message = _message(dice, prose, code, len(made))
        made.append(message)
        size += sum(len(text.encode()) for text in texts_of(message))
    return made


def _message(dice: random.Random, prose: str, code: str, number: int) -> dict[str, Any]:
    length = int(min(dice.lognormvariate(6.4, 1.1), 20_000))
    kind = dice.random()
    if kind < 0.15:
        edit = {"path": f"src/module_{number}.py", "line": dice.randrange(9999), "text": _cut(dice, code, 200)}
        arguments = json.dumps(edit)
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "edit_file", "arguments": arguments}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if kind < 0.35:
        rows = [_row(dice) for _ in range(1 + length // 60)]
        return {"role": "tool", "tool_call_id": f"call_{number}", "content": json.dumps(rows, ensure_ascii=False)}
    if kind < 0.45:
        return {"role": "user", "content": " ".join(dice.choices(SENTENCES, k=1 + length // 40)) + str(number)}
    role = dice.choice(("user", "assistant"))
    return {"role": role, "content": _cut(dice, code if kind > 0.8 else prose, length)}


def _row(dice: random.Random) -> dict[str, Any]:
    return {
        "id": f"{dice.getrandbits(64):016x}",
        "price": dice.randrange(90_000) / 100,
        "city": dice.choice(SENTENCES)[:4],
    }


def _cut(dice: random.Random, text: str, length: int) -> str:
    start = dice.randrange(len(text) - length)
    return text[start : start + length]


def texts_of(message: dict[str, Any]) -> list[str]:
    """The texts of a message that `count_message` counts, but for its role."""
    texts = [message["content"]] if message["content"] else []
    for call in message.get("tool_calls", ()):
        texts += [call["function"]["name"], call["function"]["arguments"]]
    return texts


def cold(messages: list[dict[str, Any]], rounds: int, encoding: str) -> tuple[float, float, float]:
    """Megabytes a second of `count_message` and of ``encode_ordinary``, and the median of their ratios."""
    encode = get_encoding(encoding).encode_ordinary
    blocks = [messages[start : start + 250] for start in range(0, len(messages), 250)]
    texts = [[text for message in block for text in texts_of(message)] for block in blocks]
    size = sum(len(text.encode()) for block in texts for text in block) / 1e6
    ours, theirs = [], []
    for number in range(rounds):
        forget()
        spent = [0.0, 0.0]
        for index, (block, plain) in enumerate(zip(blocks, texts, strict=True)):
            for turn in (0, 1) if (index + number) % 2 else (1, 0):
                start = time.perf_counter()
                if turn == 0:
                    for message in block:
                        count_message(message, encoding)
                else:
                    for text in plain:
                        len(encode(text))
                spent[turn] += time.perf_counter() - start
        ours.append(spent[0])
        theirs.append(spent[1])
    ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
    return size / min(ours), size / min(theirs), ratio


def one_append(messages: list[dict[str, Any]], rounds: int) -> tuple[float, float, float]:
    """Seconds (medians) to count a history whole, and to re-estimate it after an append: by list, and by meter."""
    whole, by_list, by_meter = [], [], []
    split = min(10_000, len(messages) * 9 // 10)
    history, more = messages[:split], messages[split:]
    for _ in range(3):
        forget()
        start = time.perf_counter()
        estimate_tokens(history[:])
        whole.append(time.perf_counter() - start)
    estimate_tokens(history)
    meter = TokenMeter(history)
    for message in more[: 20 * rounds]:
        history.append(message)
        start = time.perf_counter()
        total = estimate_tokens(history)
        by_list.append(time.perf_counter() - start)
        new = dict(message, content=(message["content"] or "") + ".")  # not remembered yet
        start = time.perf_counter()
        meter.append(new)
        assert meter.total > 0
        by_meter.append(time.perf_counter() - start)
        assert total > 0
    return statistics.median(whole), statistics.median(by_list), statistics.median(by_meter)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    messages = messages_of(options.megabytes)
    print(f"{len(messages):,} messages, {options.megabytes:g} MB")
    gc.collect()
    for encoding in ("o200k_base", "cl100k_base"):
        ours, theirs, ratio = cold(messages, options.rounds, encoding)
        print(
            f"cold, {encoding:<12} count_message {ours:6.2f} MB/s   encode_ordinary {theirs:6.2f} MB/s   "
            f"ratio {ratio:5.3f} (goal 0.95)"
        )
    whole, by_list, by_meter = one_append(messages, options.rounds)
    size = min(10_000, len(messages) * 9 // 10)
    print(f"{size:,} messages, whole            {whole * 1e3:9.2f} ms")
    print(f"  + 1 append, TokenMeter          {by_meter * 1e3:9.4f} ms   {whole / by_meter:8,.0f} times (goal 1,000)")
    print(f"  + 1 append, estimate_tokens     {by_list * 1e3:9.4f} ms   {whole / by_list:8,.0f} times")


if __name__ == "__main__":
    main()
