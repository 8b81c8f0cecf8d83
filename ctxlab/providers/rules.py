"""The rules as data: what each one asks, why, and where its error was seen in public.

A rule is known by its id; the wording of an error differs between versions of an API, the id does not. Nothing here
was checked against a live API: `source` names the public report (or the library) that the rule was read from, and a
rule that only few reports support is a *warning*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of one provider.

    ``severity`` is what a break of it usually is; a checker may say otherwise for one version (A7 is a warning today
    and was an error in 2024). ``pairing`` marks the rules about which result answers which call: those are the ones
    that a repair must be able to mend in every history.
    """

    id: str
    provider: str
    title: str
    why: str
    source: str
    severity: Severity = "error"
    pairing: bool = False


@dataclass(frozen=True, slots=True)
class Violation:
    """One reason for which a request would be refused.

    ``index`` is a place in the list that was given (None where no message is to blame, as in an empty history).
    ``message`` is the text that a person would see from the API, with the real ids; its own indices are those of the
    request as that API takes it (system messages lifted out, results grouped). ``repair`` is one sentence that says
    what mends it. ``source`` is the public report that the rule was read from. ``pairing``: it is about which result
    answers which call (so for the ids in `PAIRING_RULES`, save for G6 where only a name is missing, and for M1 where a
    result is out of place).
    """

    rule: str
    index: int | None
    message: str
    repair: str
    severity: Severity
    source: str
    pairing: bool = False


def broken(
    rule: str,
    index: int | None,
    message: str,
    repair: str,
    severity: Severity | None = None,
    pairing: bool | None = None,
) -> Violation:
    """A violation of a rule of the table; severity and pairing are the rule's own unless given."""
    entry = RULES[rule]
    is_pairing = entry.pairing if pairing is None else pairing
    return Violation(rule, index, message, repair, severity or entry.severity, entry.source, is_pairing)


_TABLE = (
    Rule(
        "O1",
        "openai",
        "a result follows the call that it answers",
        "A tool message is read as the answer to the assistant message right before it (other tool messages may stand "
        "between). Without that call the model would see an answer to a question that nobody asked.",
        "BerriAI/litellm#4931",
        pairing=True,
    ),
    Rule(
        "O2",
        "openai",
        "every call is answered before anything else is said",
        "After an assistant message with tool_calls come the results of all of them, in any order, and only then "
        "another role or the end of the list.",
        "BerriAI/litellm#10696; langchain-ai/langchain#27216",
        pairing=True,
    ),
    Rule(
        "O3",
        "openai",
        "there is at least one message",
        "A request has to ask something.",
        "seen in OpenAI-compatible servers",
    ),
    Rule(
        "O4",
        "openai",
        "content is there",
        "Content may be null only where an assistant message carries something else (tool_calls, a refusal, audio).",
        "docker/docker-agent#63; BerriAI/litellm reports of messages.[i].content",
    ),
    Rule(
        "O5",
        "openai",
        "a call has an id, a type, and a function with a name and arguments as text",
        "The arguments are the JSON text that the model wrote, not an object: a log that stores them parsed has to "
        "write them back as text.",
        "openai/openai-node PR#1341; home-assistant/core PR#118577; continuedev/continue#11645",
    ),
    Rule(
        "O6",
        "openai",
        "call ids differ within one assistant message",
        "Two calls with one id cannot be told apart by their results. Refused by OpenAI-compatible servers; no report "
        "from OpenAI itself was found, hence a warning.",
        "openclaw/openclaw#40897; openclaw/openclaw PR#47136",
        severity="warning",
        pairing=True,
    ),
    Rule(
        "O7",
        "openai",
        "a call has one result",
        "A second tool message with the same id under the same assistant message is refused, whether it repeats the "
        "first or comes from a retry.",
        "agno-agi/agno#5116; fatwang2/search2ai#30",
        pairing=True,
    ),
    Rule(
        "O8",
        "openai",
        "the role is one that the API knows",
        "system, developer, user, assistant, tool, and function (the old form of tool).",
        "OpenAI API reference, messages.role",
    ),
    Rule(
        "R1",
        "openai_responses",
        "an output has its call before it",
        "The Responses API takes calls and outputs as items of their own and pairs them by call_id; an output whose "
        "call was cut away has nothing to answer.",
        "langchain-ai/langchain PR#34609",
        pairing=True,
    ),
    Rule(
        "R2",
        "openai_responses",
        "a call has its output after it",
        "A call that was stored while its tool ran, and never closed, is refused in every later request.",
        "huggingface/tau PR#269",
        pairing=True,
    ),
    Rule(
        "R3",
        "openai_responses",
        "a reasoning item and the item that it led to stay together",
        "The server links them by id. When a compaction drops one of the two, the id of the other has to go as well.",
        "openai/openai-agents-python#2727; mpfaffenberger/code_puppy PR#307; continuedev/continue#8933",
    ),
    Rule(
        "R4",
        "openai_responses",
        "there is at least one input item",
        "A request has to ask something.",
        "seen in OpenAI-compatible servers",
    ),
    Rule(
        "R5",
        "openai_responses",
        "an item has the fields of its kind",
        "A role that the API knows (a tool message becomes an output item), content, an id to pair by, a name.",
        "anomalyco/opencode#10803; openai/openai-python#2677",
    ),
    Rule(
        "R6",
        "openai_responses",
        "nothing stands between a call and its output",
        "OpenAI pairs by call_id and takes a message in between; compatible servers want the two adjacent, hence a "
        "warning.",
        "deepseek-ai/awesome-deepseek-integration#740; MayDay-wpf/snow-app PR#9",
        severity="warning",
        pairing=True,
    ),
    Rule(
        "A1",
        "anthropic",
        "the next message opens with the result of every call",
        "Adjacency is the rule: a result that comes later, or behind text in the same message, does not count.",
        "earendil-works/pi#4189; langchain-ai/langgraph PR#1899",
        pairing=True,
    ),
    Rule(
        "A2",
        "anthropic",
        "a result has its call in the message before",
        "Cutting a history between a call and its result leaves the result alone.",
        "anthropics/claude-code#31328; anthropics/claude-code#18947",
        pairing=True,
    ),
    Rule(
        "A3",
        "anthropic",
        "call ids differ in the whole request",
        "Some servers number their calls from 0 in each turn; a history recorded there repeats its ids.",
        "anthropics/claude-code#28515",
    ),
    Rule(
        "A4",
        "anthropic",
        "a call has one result",
        "Two writers, or a retry that stored its result again, leave two.",
        "QwenLM/qwen-code PR#8163",
        pairing=True,
    ),
    Rule(
        "A5",
        "anthropic",
        "no message and no text block is empty",
        "Only the last message may be empty, and only if it is the assistant's (a prefill).",
        "BerriAI/litellm PR#2549; anthropics/claude-code#59812; LibreChat-AI/agents PR#124",
    ),
    Rule(
        "A6",
        "anthropic_no_prefill",
        "the last message is not the assistant's",
        "Models without prefill do not go on from a begun answer. Older ones do, so it is a warning there.",
        "block/goose#12164",
    ),
    Rule(
        "A7",
        "anthropic_2024",
        "user and assistant take turns, and the user begins",
        "The API refused it in 2024. By now the SDK's text says that consecutive turns are combined, and a request "
        "that begins with the assistant is reported as accepted: a warning.",
        "lobehub/lobehub#1601; etkecc/baibot#13; anthropics/courses#79",
        severity="warning",
    ),
    Rule(
        "A8",
        "anthropic",
        "a call has a name, and an id of letters, digits, _ and -",
        "Ids such as functions.read:0 come from other providers. The limit of 64 characters is stated in a client's "
        "code and not confirmed: a longer id is a warning.",
        "maximhq/bifrost#5097; BerriAI/litellm PR#21964; QwenLM/qwen-code#8160; earendil-works/pi source (the length)",
    ),
    Rule(
        "A9",
        "anthropic",
        "there is at least one message that is not the system's",
        "System messages travel in a field of their own; what is left must not be empty.",
        "langchain-ai/langchain PR#31696",
    ),
    Rule(
        "A10",
        "anthropic",
        "the role is one that the API knows",
        "Only user and assistant; tool results are part of a user message, the system prompt is a field.",
        "Anthropic API reference, messages.role",
    ),
    Rule(
        "A11",
        "anthropic",
        "a begun answer does not end in white space",
        "A last message of the assistant is a prefill: the model goes on right after its last character.",
        "tailcallhq/forgecode#1872; crewAIInc/crewAI PR#4538",
    ),
    Rule(
        "G1",
        "gemini",
        "as many responses as calls, in the next turn",
        "Gemini counts: the turn after a call turn holds exactly one response for each call.",
        "google-gemini/gemini-cli#3814; microsoft/vscode#299295",
        pairing=True,
    ),
    Rule(
        "G2",
        "gemini",
        "a call comes right after a user turn or a response turn",
        "A history that was cut so that it begins with a call is refused, however complete its calls are.",
        "google-gemini/gemini-cli#11814; langchain-ai/langchainjs#9272",
    ),
    Rule(
        "G3",
        "gemini",
        "a response comes right after its call turn",
        "Adjacency again: a user turn between the two is enough.",
        "GoogleCloudPlatform/generative-ai PR#368; langchain-ai/langchain#27799",
        pairing=True,
    ),
    Rule(
        "G4",
        "gemini",
        "the last turn is the user's or a response",
        "Newer models have no prefill; some older ones go on from a begun answer.",
        "pipecat-ai/pipecat PR#5821; crewAIInc/crewAI PR#6973; crewAIInc/crewAI PR#7157; songquanpeng/one-api#836",
    ),
    Rule(
        "G5",
        "gemini",
        "there is at least one turn, and no turn is empty",
        "System messages travel in a field of their own; a turn whose text is empty has no parts.",
        "vercel/ai#3775; egoist/chatwise-releases#250; langchain-ai/langchain-google#1393",
    ),
    Rule(
        "G6",
        "gemini",
        "a call and a response carry the function's name",
        "Gemini pairs by name. A tool message has only the id of its call; the name is looked up in the call turn "
        "before it, and is empty when that turn has no such id.",
        "router-for-me/CLIProxyAPI#2104; langflow-ai/langflow#9437",
        pairing=True,
    ),
    Rule(
        "G7",
        "gemini",
        "the role is one that the API knows",
        "user and model (system, assistant and tool are converted).",
        "songquanpeng/one-api#1385",
    ),
    Rule(
        "M1",
        "mistral",
        "roles follow one another as the table allows",
        "system: user, assistant, system. user: assistant, system, user. assistant: assistant, user, tool. tool: "
        "assistant, tool, and user; the hosted API refused that last one in 2025 (code 3230).",
        "mistral-common 1.13.1 validator; pipecat-ai/pipecat-flows#178; datapizza-labs/datapizza-ai#98",
    ),
    Rule(
        "M2",
        "mistral",
        "as many results as calls before the assistant speaks again",
        "Up to v7 that count is all that is checked; from v11 on the ids are compared too (M3).",
        "mistral-common 1.13.1 validator",
        pairing=True,
    ),
    Rule(
        "M3",
        "mistral",
        "from v11: each result names a call of the turn, once",
        "And two calls of one assistant message never share an id.",
        "mistral-common 1.13.1 validator",
        pairing=True,
    ),
    Rule(
        "M4",
        "mistral",
        "the last message is not a finished answer",
        "It may be the assistant's only with prefix: true, which asks the model to go on from it.",
        "mistral-common 1.13.1 validator",
    ),
    Rule(
        "M5",
        "mistral",
        "v3 to v11: an id is nine letters or digits",
        "Ids of other providers do not fit and have to be rewritten. v13 lifted it (an id must still be there), but "
        "the hosted API was seen to refuse them well into 2026, hence a warning there.",
        "mistral-common 1.13.1 validator; anomalyco/opencode#1680; karthink/gptel#1203; nearai/ironclaw#1241",
    ),
    Rule(
        "M6",
        "mistral",
        "v3: text or calls, not both and not neither",
        "v7 lifted it.",
        "mistral-common 1.13.1 validator",
    ),
    Rule(
        "M7",
        "mistral",
        "there is a message, and a single one is the user's or the system's",
        "The library accepts any first role once there are two messages; it does not look at the calls of the first "
        "message either. A history that begins with a tool message is therefore only a warning.",
        "mistral-common 1.13.1 validator",
    ),
    Rule(
        "M8",
        "mistral",
        "the message has the fields of its role",
        "Known role, content where it is needed, calls with a function, its arguments, and a name of up to 64 letters, "
        "digits, _ and -; prefix on the last message only.",
        "mistral-common 1.13.1 models and validator",
    ),
)

RULES: dict[str, Rule] = {rule.id: rule for rule in _TABLE}

PAIRING_RULES: frozenset[str] = frozenset(rule.id for rule in _TABLE if rule.pairing)
"""Ids of the rules about which result answers which call. A3 is not among them: ids that repeat in different turns
pair well by place, and most providers accept them."""
