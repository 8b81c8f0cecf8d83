# A cache by content, which cannot go stale.
import functools
from dataclasses import dataclass

from ctxlab import count_tokens

count = functools.lru_cache(maxsize=None)(count_tokens)


@dataclass
class Item:
    text: str
    frame: int = 3


def items(history):
    for message in history:
        content = message["content"] if "content" in message else None
        for part in content if isinstance(content, list) else [{"text": content or ""}]:
            yield Item(part.get("text", ""))
        for call in message.get("tool_calls") or []:
            yield Item(call["function"]["name"] + " " + call["function"]["arguments"])


def estimate_tokens(history):
    tokens = 0
    for item in items(history):
        tokens += count(item.text) + item.frame
    return int(tokens)
