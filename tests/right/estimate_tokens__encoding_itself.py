# The tokenizer itself, with special tokens taken for text.
from ctxlab import get_encoding

ENCODING = get_encoding("o200k_base")


class Counter:
    def __call__(self, text):
        return len(ENCODING.encode(text, disallowed_special=()))


count = Counter()


def texts(message):
    match message.get("content"):
        case str(text):
            yield text
        case list(parts):
            for part in parts:
                if part["type"] == "text":
                    yield part["text"]
    for call in message.get("tool_calls") or ():
        yield from call["function"].values()


def estimate_tokens(history: list) -> int:
    return sum(4 + sum(count(text) for text in texts(message)) for message in history)
