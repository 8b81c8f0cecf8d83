"""OpenAI chat messages: a plain list, a request body, tau-bench trajectories, SWE-agent ``.traj`` files, JSONL.

The messages are the normal form already and come back as they are. Three older or home-made spellings are mended:
SWE-agent's ``tool_call_ids`` list, the legacy ``function_call`` with its ``function`` message, and arguments that are
an object.
"""

from __future__ import annotations

from typing import Any

from ctxlab.formats.conversation import Draft, Json, Usage, leading_system
from ctxlab.formats.shapes import arguments_text, call, function_tool, items, mapping, number, objects, string

FORMAT = "openai_chat"
ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
# What SWE-agent adds to each message for itself.
_SWE_AGENT = frozenset({"agent", "message_type", "thought", "action", "is_demo", "tool_call_ids", "thinking_blocks"})


def is_message(value: Any) -> bool:
    """Whether the value looks like an OpenAI chat message."""
    return isinstance(value, dict) and string(value.get("role")) in ROLES and "parts" not in value


def from_messages(messages: Any, format: str = FORMAT) -> Draft:
    """A draft from a list of messages; what is not a message is reported and left out."""
    draft = Draft(format)
    for place, message in enumerate(items(messages)):
        add(draft, message, None, f"message {place}")
    finish(draft)
    return draft


def from_body(body: Json) -> Draft:
    """A draft from a request body: ``messages``, ``tools`` (or the legacy ``functions``), ``model``."""
    draft = from_messages(body.get("messages"))
    draft.tools = [function_tool(tool) for tool in objects(body.get("tools")) or objects(body.get("functions"))]
    draft.model = string(body.get("model"))
    return draft


def from_exchange(request: Json, response: Json) -> Draft:
    """A draft from one recorded request and its response."""
    draft = from_body(request)
    choice = next(iter(objects(response.get("choices"))), {})
    if is_message(choice.get("message")):
        index = add(draft, choice["message"], None, "the reply")
        usage = mapping(response.get("usage"))
        if usage and index is not None:
            cached = number(mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
            draft.usage[index] = Usage(
                number(usage.get("prompt_tokens")), number(usage.get("completion_tokens")), cached
            )
    draft.model = string(response.get("model")) or draft.model
    return draft


def from_tau_bench(task: Json) -> Draft:
    """A draft from one tau-bench task: its ``traj`` is the message list."""
    draft = from_messages(task.get("traj"))
    draft.title = f"task {task.get('task_id')}, trial {task.get('trial')}"
    return draft


def from_swe_agent(trajectory: Json) -> Draft:
    """A draft from a SWE-agent trajectory: its ``history`` is the message list."""
    history = [
        {key: value for key, value in _swe_agent(message).items() if key not in _SWE_AGENT}
        for message in objects(trajectory.get("history"))
    ]
    draft = from_messages(history)
    draft.title = string(trajectory.get("environment"))
    return draft


def _swe_agent(message: Json) -> Json:
    ids = items(message.get("tool_call_ids"))
    if message.get("role") == "tool" and ids and "tool_call_id" not in message:
        return {**message, "tool_call_id": ids[0]}
    return message


def add(draft: Draft, message: Any, line: int | None, where: str) -> int | None:
    """Append one OpenAI-shaped message; returns its index, or None if it is none (reported)."""
    if not is_message(message):
        role = mapping(message).get("role")
        draft.report("bad_record", f"{where}: not a chat message (role {role!r})", line=line)
        return None
    if message["role"] == "function":
        message = _legacy_result(draft, message)
    elif "function_call" in message and not message.get("tool_calls"):
        message = _legacy_call(draft, message)
    elif message.get("tool_calls") is not None:
        message = _valid_calls(draft, message, line, where)
    content = message.get("content")
    if content is not None and not isinstance(content, (str, list)):
        draft.report("bad_record", f"{where}: content is neither text nor parts", line=line)
        message = {**message, "content": arguments_text(content)}
    return draft.add(message, line)


def _valid_calls(draft: Draft, message: Json, line: int | None, where: str) -> Json:
    """The message with its calls as objects and their arguments as text; the message itself where they are so."""
    calls = message["tool_calls"]
    if isinstance(calls, list) and all(
        isinstance(one, dict) and isinstance(mapping(one.get("function")).get("arguments"), str) for one in calls
    ):
        return message
    kept = []
    for one in objects(calls):
        function = mapping(one.get("function"))
        text = arguments_text(function.get("arguments"))
        kept.append({**one, "function": {**function, "arguments": text}})
    if not isinstance(calls, list) or len(kept) != len(calls):
        draft.report("bad_record", f"{where}: tool_calls that are not a list of objects", line=line)
    if kept:
        return {**message, "tool_calls": kept}
    return {key: value for key, value in message.items() if key != "tool_calls"}


def _legacy_call(draft: Draft, message: Json) -> Json:
    function = mapping(message["function_call"])
    rest = {key: value for key, value in message.items() if key != "function_call"}
    if not function:
        return rest
    id = f"call_{len(draft.messages)}"
    return {**rest, "tool_calls": [call(id, function.get("name"), function.get("arguments"))]}


def _legacy_result(draft: Draft, message: Json) -> Json:
    """A ``function`` message answers the call just before it: it has no id."""
    calls = objects(draft.messages[-1].get("tool_calls")) if draft.messages else []
    id = string(calls[-1].get("id")) if calls else ""
    return {**message, "role": "tool", "tool_call_id": id}


def finish(draft: Draft) -> None:
    """Read the system prompt off the leading system messages."""
    leading = draft.messages[: leading_system(draft.messages)]
    draft.system = "\n\n".join(_text(message.get("content")) for message in leading)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(string(mapping(part).get("text")) for part in content)
    return string(content)


class Lines:
    """A JSONL file with one message a line, or one conversation a line (``{"messages": [...]}``, fine-tuning data)."""

    def __init__(self) -> None:
        self.draft = Draft(FORMAT)
        self.bodies: list[tuple[Json, int]] = []

    def feed(self, record: Json, line: int) -> None:
        """Take in one line."""
        if isinstance(record.get("messages"), list):
            self.bodies.append((record, line))
        elif is_message(record):
            add(self.draft, record, line, f"line {line}")
        else:
            self.draft.skipped[string(record.get("type")) or "without a role"] += 1

    def finish(self) -> list[Draft]:
        """The conversations that were read."""
        drafts = [self.draft] if self.draft.messages or not self.bodies else []
        for draft in drafts:
            finish(draft)
        return drafts + [from_body(body) for body, _ in self.bodies]
