# Each message as the JSON that is sent, counted whole.
import json

from ctxlab import count_tokens


def estimate_tokens(history):
    return sum(count_tokens(json.dumps(message, ensure_ascii=False)) for message in history)
