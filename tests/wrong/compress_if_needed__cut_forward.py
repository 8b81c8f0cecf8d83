# fails: keeps-recent, round-start, only-request-kept
# The cut moves on to after the results.
from ctxlab import KEEP_RECENT, MAX_TOKENS, TRIGGER_RATIO, align_to_turn_start, estimate_tokens

from ctxlab import align_to_round_start


async def compress_if_needed(history: list[dict], summarize) -> list[dict]:
    """The history, or a shorter one in which a summary stands for the early messages."""
    if estimate_tokens(history) < TRIGGER_RATIO * MAX_TOKENS:
        return history
    raw = max(0, len(history) - KEEP_RECENT)
    cut, request = raw, []
    while cut < len(history) and history[cut]["role"] == "tool":
        cut += 1
    if not any(message["role"] == "user" for message in history[:cut]):
        # One long round, an agent at work on a single request: cut inside it, and keep the request as it was written.
        cut = align_to_turn_start(history, raw)
        request = [message for message in history[:cut] if message["role"] == "user"][:1]
    system = [message for message in history[:cut] if message["role"] == "system"]
    earlier = [message for message in history[:cut] if message["role"] != "system"]
    if len(earlier) <= len(request):
        return history
    try:
        summary = await summarize(earlier)
    except Exception as error:
        print(f"no summary ({error}): the history stays as it is")
        return history
    if not summary or not summary.strip():
        return history
    said = {"role": "user", "content": f"[Summary of the conversation so far]\n{summary}"}
    shorter = [*system, *request, said, *history[cut:]]
    return shorter if estimate_tokens(shorter) < estimate_tokens(history) else history
