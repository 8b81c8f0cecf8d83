# A plain function, pair-safe, as the lesson has it.
from ctxlab import KEEP_RECENT, MAX_TOKENS, TRIGGER_RATIO, align_to_turn_start, estimate_tokens


def compress_if_needed(history, summarize):
    if estimate_tokens(history) < TRIGGER_RATIO * MAX_TOKENS:
        return history
    cut = align_to_turn_start(history, max(0, len(history) - KEEP_RECENT))
    system = [m for m in history if m["role"] == "system"]
    old = [m for m in history[:cut] if m["role"] != "system"]
    recent = [m for m in history[cut:] if m["role"] != "system"]
    try:
        summary = summarize(old)
    except Exception:
        return history
    return system + [{"role": "user", "content": "Summary: " + summary}] + recent
