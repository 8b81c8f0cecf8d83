"""Tool definitions as TypeScript: what is rendered, and that no schema breaks it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxlab.errors import MalformedTool
from ctxlab.tokens import count_tokens, count_tools, render_tools


def tool(properties=None, required=(), **more):
    schema = {"type": "object", "properties": properties or {}, "required": list(required), **more}
    return {"type": "function", "function": {"name": "f", "description": "Does f.", "parameters": schema}}


def body(*args, **more):
    """The lines between the braces of the one function."""
    return render_tools([tool(*args, **more)]).split("(_: {\n")[1].split("\n}) => any;")[0]


def test_a_tool_is_rendered_as_a_typescript_namespace():
    rendered = render_tools([tool({"city": {"type": "string", "description": "The city"}}, ["city"]), tool()])
    assert rendered == (
        "namespace functions {\n\n// Does f.\ntype f = (_: {\n// The city\ncity: string,\n}) => any;\n\n"
        "// Does f.\ntype f = () => any;\n\n} // namespace functions"
    )


def test_the_count_is_the_rendering_and_nine_and_no_tools_are_nothing():
    assert count_tools([tool()]) == count_tokens(render_tools([tool()])) + 9
    assert count_tools([]) == count_tools(None) == count_tools(()) == 0


@pytest.mark.parametrize(
    ("schema", "rendered"),
    [
        ({"type": "string"}, "string"),
        ({"type": "integer"}, "number"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "null"}, "null"),
        ({"type": "STRING"}, "string"),
        ({"type": "string", "enum": ["a", "b"]}, '"a" | "b"'),
        ({"type": "integer", "enum": [-1, 1]}, "-1 | 1"),
        ({"enum": ["a", 1, None, True]}, '"a" | 1 | null | true'),
        ({"type": "array"}, "any[]"),
        ({"type": "array", "items": {"type": "number"}}, "number[]"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "string | number"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "string & number"),
        ({"$ref": "#/$defs/City"}, "boolean"),
        ({"$ref": "#/$defs/Missing"}, "any"),
        ({"$ref": "https://example.org/schema.json"}, "any"),
        ({}, "any"),
        ({"type": "tuple"}, "any"),
        (True, "any"),
        (None, "any"),
    ],
)
def test_each_kind_of_schema(schema, rendered):
    assert body({"p": schema}, **{"$defs": {"City": {"type": "boolean"}}}) == f"p?: {rendered},"


def test_nested_descriptions_are_kept_and_indented():
    inner = {"type": "object", "properties": {"unit": {"type": "string", "description": "The unit"}}}
    assert body({"place": inner}) == "place?: {\n  // The unit\n  unit?: string,\n},"


def test_the_vendors_shapes_of_one_definition_cost_the_same():
    schema = {"type": "object", "properties": {"a": {"type": "integer", "description": "first"}}, "required": ["a"]}
    plain = {"name": "add", "description": "Adds.", "parameters": schema}
    shapes = [
        [{"type": "function", "function": plain}],
        [plain],
        [{"type": "function", **plain}],
        [{"name": "add", "description": "Adds.", "input_schema": schema}],
        [{"functionDeclarations": [plain]}],
    ]
    assert len({count_tools(shape) for shape in shapes}) == 1


def test_a_hosted_tool_without_a_name_costs_its_type():
    assert "type web_search = () => any;" in render_tools([{"type": "web_search"}])


@pytest.mark.parametrize(
    ("bad", "index", "words"),
    [
        ("tools", None, "a str where a list"),
        ({"name": "f"}, None, "a dict where a list"),
        (5, None, "a int where a list"),
        (["f"], 0, "tool 0: a str"),
        ([tool(), {"description": "x"}], 1, "tool 1: a definition without a name"),
        ([{"functionDeclarations": [3]}], 0, "tool 0: a int"),
    ],
)
def test_what_is_no_definition_is_refused_with_its_index(bad, index, words):
    with pytest.raises(MalformedTool, match=words) as caught:
        count_tools(bad)
    assert caught.value.index == index


def test_a_schema_that_contains_itself_ends():
    node = {"type": "object", "properties": {"value": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}}}
    by_name = tool({"head": {"$ref": "#/$defs/Node"}}, **{"$defs": {"Node": node}})
    assert "next?: Node," in render_tools([by_name])
    loop: dict = {"type": "array"}
    loop["items"] = loop
    tree: dict = {"type": "object", "properties": {}}
    tree["properties"] |= {"left": tree, "right": tree}
    for schema in (loop, tree):
        assert 0 < count_tools([tool({"p": schema})]) < 1_000_000


def test_references_that_multiply_end():
    levels = {f"L{n}": {"anyOf": [{"$ref": f"#/$defs/L{n + 1}"}] * 4} for n in range(30)}
    assert count_tools([tool({"p": {"$ref": "#/$defs/L0"}}, **{"$defs": levels})]) < 200_000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "items", "enum", "anyOf", "$ref", "required", "description", "a"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_no_schema_raises(schema):
    assert count_tools([{"name": "f", "parameters": schema}]) > 9
    assert count_tools([tool({"p": schema})]) > 9


def test_the_json_of_realistic_tools_is_about_twice_what_they_cost():
    names = ("list_files", "read_file", "search_text", "run_command", "open_issue", "send_mail")
    tools = [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": f"Use this to {name.replace('_', ' ')} in the user's workspace.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "path": {"type": "string", "description": "Path from the root of the workspace"},
                        "limit": {"type": "integer", "description": "How many results at most"},
                        "mode": {"type": "string", "enum": ["fast", "full"]},
                    },
                    "required": ["path"],
                    "additionalProperties": False,
                },
            },
        }
        for name in names
    ]
    assert 1.6 < count_tokens(json.dumps(tools)) / count_tools(tools) < 2.6
