"""How many tokens the tool definitions take: rendered as TypeScript, as the models see them, and counted.

OpenAI does not document what it makes of a definition; that it becomes a TypeScript namespace was found by asking the
models, and the constants by comparing with billed counts (hmarr/openai-chat-tokens, MIT). Nested descriptions are
kept here, as gpt-oss's published renderer keeps them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ctxlab.errors import MalformedTool
from ctxlab.texts import count_tokens

TOOLS_OVERHEAD = 9
"""Tokens around the rendered definitions (hmarr/openai-chat-tokens)."""

DEEPEST = 32
"""Schemas inside schemas are rendered to this depth (picked); what lies deeper is ``any``."""

MOST_SCHEMAS = 20_000
"""Schemas rendered for one tool (picked); references that multiply beyond it are ``any``."""


def count_tools(tools: Iterable[Mapping[str, Any]] | None, encoding: str = "o200k_base") -> int:
    """Tokens of the tool definitions, which every request sends again; 0 for none.

    ``tools``: OpenAI's definitions (``{"type": "function", "function": {...}}``, or flat as in the Responses API),
    Anthropic's (``input_schema``), or Gemini's (``functionDeclarations``). An estimate. Held against published
    billed totals (GPT-3.5): in 18 ``tools`` requests (pamelafox/openai-messages-token-helper) 0 to 3 tokens over; in
    36 requests, 20 of them with functions (hmarr/openai-chat-tokens), exact but for two with nested descriptions,
    which that model was not shown: 13 and 20 over. Against gpt-oss's exact rendering of twelve tools: 581 for 610.
    Counting their JSON instead gives 1,291. With a system message the request takes 4 fewer tokens and a line break
    more: see `tokens.count_request`. Raises `MalformedTool` for what is no definition; a strange schema never raises.
    """
    text = render_tools(tools or ())
    return count_tokens(text, encoding) + TOOLS_OVERHEAD if text else 0


def render_tools(tools: Iterable[Mapping[str, Any]]) -> str:
    """The definitions as the TypeScript that is counted; '' for none.

    >>> schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    >>> print(render_tools([{"name": "add", "parameters": schema}]))
    namespace functions {
    <BLANKLINE>
    type add = (_: {
    a: number,
    }) => any;
    <BLANKLINE>
    } // namespace functions
    """
    functions = [_Function(function, index) for index, tool in _indexed(tools) for function in _functions(tool, index)]
    if not functions:
        return ""
    lines = ["namespace functions {", ""]
    for function in functions:
        lines += [*function.render(), ""]
    return "\n".join([*lines, "} // namespace functions"])


def _indexed(tools: Any) -> Iterable[tuple[int, Any]]:
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        raise MalformedTool(
            f"a {type(tools).__name__} where a list of tool definitions was expected",
            hint='tools are [{"type": "function", "function": {"name": "...", "parameters": {...}}}, ...]',
            index=None,
        )
    return enumerate(tools)


def _functions(tool: Any, index: int) -> list[Mapping[str, Any]]:
    """The function definitions in one tool: the tool itself, what it wraps, or Gemini's list of declarations."""
    if not isinstance(tool, Mapping):
        raise MalformedTool(
            f"tool {index}: a {type(tool).__name__} where a tool definition (a dict) was expected",
            hint='a tool is {"type": "function", "function": {"name": "...", "parameters": {...}}}',
            index=index,
        )
    declared = tool.get("functionDeclarations", tool.get("function_declarations"))
    if isinstance(declared, (list, tuple)):
        return [function for inner in declared for function in _functions(inner, index)]
    wrapped = tool.get("function")
    return [wrapped if isinstance(wrapped, Mapping) else tool]


class _Function:
    """One definition and the state of its rendering: how many schemas are done, how deep, which references are open."""

    def __init__(self, data: Mapping[str, Any], index: int) -> None:
        name = data.get("name", data.get("type"))  # a hosted tool, {"type": "web_search"}, has only a type
        if not isinstance(name, str):
            raise MalformedTool(
                f"tool {index}: a definition without a name (keys: {', '.join(map(str, data)) or 'none'})",
                hint='give it a "name"',
                index=index,
            )
        self.name = name
        self.description = data.get("description")
        schema: Mapping[str, Any] = next(
            (data[key] for key in ("parameters", "input_schema", "inputSchema") if isinstance(data.get(key), Mapping)),
            {},
        )
        self.root = schema
        self.rendered = self.depth = 0
        self.open: list[str] = []

    def render(self) -> list[str]:
        lines = _comment(self.description)
        body = self._properties(self.root, 0)
        if body:
            return [*lines, f"type {self.name} = (_: {{", body, "}) => any;"]
        return [*lines, f"type {self.name} = () => any;"]

    def _properties(self, schema: Mapping[str, Any], indent: int) -> str:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping):
            return ""
        required = schema.get("required")
        needed = set(filter(_is_text, required)) if isinstance(required, (list, tuple)) else set()
        lines = []
        for name, prop in properties.items():
            lines += _comment(prop.get("description") if isinstance(prop, Mapping) else None)
            lines.append(f"{name}{'' if name in needed else '?'}: {self._type(prop, indent)},")
        return "\n".join(" " * indent + line for line in lines)

    def _type(self, schema: Any, indent: int) -> str:
        """The TypeScript type of a schema: ``any`` where it does not say, or goes on for ever."""
        self.rendered += 1
        if not isinstance(schema, Mapping) or self.depth >= DEEPEST or self.rendered > MOST_SCHEMAS:
            return "any"
        self.depth += 1
        try:
            return self._of_mapping(schema, indent)
        finally:
            self.depth -= 1

    def _of_mapping(self, schema: Mapping[str, Any], indent: int) -> str:
        if isinstance(schema.get("$ref"), str):
            return self._reference(schema["$ref"], indent)
        for key in ("anyOf", "oneOf", "allOf"):
            if isinstance(schema.get(key), (list, tuple)) and schema[key]:
                joint = " & " if key == "allOf" else " | "
                return joint.join(self._type(inner, indent) for inner in schema[key])
        kind = schema.get("type")
        if isinstance(schema.get("enum"), (list, tuple)) and schema["enum"]:
            return " | ".join(_literal(value, kind) for value in schema["enum"])
        if isinstance(kind, (list, tuple)):
            return " | ".join(self._plain(schema, inner, indent) for inner in kind) or "any"
        return self._plain(schema, kind, indent)

    def _plain(self, schema: Mapping[str, Any], kind: Any, indent: int) -> str:
        kind = kind.lower() if isinstance(kind, str) else kind  # Gemini writes STRING
        if kind in ("string", "number", "boolean", "null"):
            return str(kind)
        if kind == "integer":
            return "number"
        if kind == "array":
            return f"{self._type(schema['items'], indent)}[]" if schema.get("items") else "any[]"
        if kind == "object" or (kind is None and schema.get("properties")):
            return "\n".join(["{", self._properties(schema, indent + 2), "}"])
        return "any"

    def _reference(self, reference: str, indent: int) -> str:
        """What ``#/$defs/Name`` points at; its name alone where it points at itself, ``any`` where at nothing."""
        if reference in self.open:
            return reference.rsplit("/", 1)[-1] or "any"
        target: Any = self.root
        for step in reference.removeprefix("#").split("/")[1:]:
            target = target.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
        if not reference.startswith("#") or not isinstance(target, Mapping):
            return "any"
        self.open.append(reference)
        try:
            return self._type(target, indent)
        finally:
            self.open.pop()


def _comment(description: Any) -> list[str]:
    return [f"// {description}"] if isinstance(description, str) and description else []


def _literal(value: Any, kind: Any) -> str:
    if isinstance(value, str) or kind == "string":
        return f'"{value}"'
    return json.dumps(value) if value is None or isinstance(value, (bool, int, float)) else str(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
