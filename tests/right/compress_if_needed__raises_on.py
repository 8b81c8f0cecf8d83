# What the summariser raises goes on: nothing is lost. The summary is a part.
import ctxlab


async def compress_if_needed(history, summarize):
    tokens = ctxlab.estimate_tokens(history)
    if tokens / ctxlab.MAX_TOKENS >= ctxlab.TRIGGER_RATIO:
        cut = ctxlab.align_to_round_start(history, len(history) - ctxlab.KEEP_RECENT)
        keep = history[cut:]
        head = []
        system = []
        for message in history[:cut]:
            (system if message["role"] in ("system", "developer") else head).append(message)
        text = await summarize(list(head))
        note = {"role": "user", "content": [{"type": "text", "text": f"(earlier) {text}"}]}
        return [*system, note, *keep]
    return list(history)
