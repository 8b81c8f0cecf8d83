# A count of its own under another name, a little off.
import json

import ctxlab


def size(messages):
    return sum(ctxlab.count_tokens(json.dumps(m)) for m in messages)


async def compress_if_needed(history, summarize):
    if size(history) < 5600:
        return history
    cut = ctxlab.align_to_turn_start(history, len(history) - 6)
    old = [m for m in history[:cut] if m["role"] != "system"]
    system = [m for m in history if m["role"] == "system"]
    try:
        note = await summarize(old)
    except Exception:
        return history
    return system + [{"role": "user", "content": note}] + history[cut:]
