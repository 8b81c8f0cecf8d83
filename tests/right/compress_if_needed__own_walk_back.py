# Its own count and its own walk back; the summariser is given the system messages too; an answer after the summary.
from ctxlab import count_tokens


def estimate_tokens(messages):
    return sum(4 + len(str(m.get("content"))) // 4 for m in messages)


async def compress_if_needed(history, summarize):
    if estimate_tokens(history) < 0.7 * 8000:
        return history
    i = len(history) - 6
    while i > 0 and history[i]["role"] == "tool":
        i -= 1
    before, after = history[:i], history[i:]
    try:
        summary = await summarize(before)
    except BaseException:
        return history
    kept_system = list(filter(lambda m: m["role"] == "system", before))
    pair = [{"role": "user", "content": summary}, {"role": "assistant", "content": "Understood."}]
    return kept_system + pair + after
