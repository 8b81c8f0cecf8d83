# Takes a summariser of either kind, and waits for it no longer than a minute.
import asyncio
import inspect
import copy

from ctxlab import align_to_turn_start, estimate_tokens as tokens_of

LIMIT = 5600
KEEP = 8


async def ask(summarize, messages):
    answer = summarize(messages)
    if inspect.isawaitable(answer):
        answer = await asyncio.wait_for(answer, timeout=60)
    return answer


async def compress_if_needed(history, summarize):
    if tokens_of(history) < LIMIT:
        return history
    work = copy.deepcopy(history)
    cut = align_to_turn_start(work, len(work) - KEEP)
    try:
        text = await ask(summarize, [m for m in work[:cut] if m["role"] != "system"])
    except (RuntimeError, OSError, asyncio.TimeoutError):
        return history
    if not text.strip():
        return history
    result = [m for m in work[:cut] if m["role"] == "system"]
    result.append({"role": "user", "content": f"<summary>\n{text}\n</summary>"})
    result.extend(work[cut:])
    return result
