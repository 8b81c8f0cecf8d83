"""One small file a rule: what each importer makes of its format's shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ctxlab.formats import Conversation, Usage, load, load_all
from ctxlab.session import Session
from ctxlab.store import open_store

CORPUS = Path(__file__).resolve().parent / "corpus" / "logs"
FILES = sorted(path.name for path in CORPUS.iterdir() if path.suffix != ".md")


def call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def kinds(conversation: Conversation) -> list[str]:
    return [one.kind for one in conversation.problems]


def at(conversation: Conversation, kind: str) -> tuple[int | None, int | None]:
    (found,) = [(one.index, one.line) for one in conversation.problems if one.kind == kind]
    return found


def texts(conversation: Conversation) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in conversation.messages]


@pytest.mark.parametrize("name", FILES)
def test_every_small_log_loads_and_is_valid_in_shape(name: str) -> None:
    for surface in (False, True):
        for conversation in load_all(CORPUS / name, surface=surface):
            assert conversation.messages
            assert len(conversation.lines) == len(conversation.messages)
            for message in conversation.messages:
                assert message["role"] in ("system", "developer", "user", "assistant", "tool")
                assert all(isinstance(one["function"]["arguments"], str) for one in message.get("tool_calls", ()))


# OpenAI


def test_a_list_of_openai_messages_comes_back_as_it_is() -> None:
    conversation = load(CORPUS / "openai_list.json")
    assert conversation.messages == json.loads((CORPUS / "openai_list.json").read_text(encoding="utf-8"))
    assert conversation.format == "openai_chat"
    assert conversation.system == "You look after a garden diary."
    assert conversation.history == conversation.messages[1:]
    assert conversation.problems == ()  # results in another order than their calls are no defect


def test_a_request_body_brings_its_tools_and_model() -> None:
    conversation = load(CORPUS / "openai_request.json")
    assert conversation.messages == load(CORPUS / "openai_list.json").messages
    assert [tool["function"]["name"] for tool in conversation.tools] == ["read_file"]
    assert conversation.model == "gpt-4o-mini"


def test_one_message_a_line_is_the_same_conversation_with_line_numbers() -> None:
    conversation = load(CORPUS / "openai_lines.jsonl")
    assert conversation.messages == load(CORPUS / "openai_list.json").messages
    assert conversation.lines == (1, 2, 3, 4, 5, 6)


def test_one_conversation_a_line_is_several_conversations() -> None:
    first, second = load_all(CORPUS / "openai_fine_tuning.jsonl")
    assert (len(first.messages), len(second.messages)) == (3, 2)
    assert load(CORPUS / "openai_fine_tuning.jsonl", conversation=1).messages == second.messages
    assert kinds(load(CORPUS / "openai_fine_tuning.jsonl")) == ["conversations"]


def test_the_legacy_function_call_becomes_a_tool_call() -> None:
    conversation = load(CORPUS / "openai_legacy_function.json")
    assert conversation.messages[1]["tool_calls"] == [call("call_1", "rain", '{"place":"Hue"}')]
    assert conversation.messages[2] == {"role": "tool", "name": "rain", "content": "yes", "tool_call_id": "call_1"}
    assert conversation.problems == ()


def test_a_recorded_exchange_ends_with_the_reply_and_its_usage() -> None:
    conversation = load(CORPUS / "openai_exchange.json")
    assert texts(conversation) == [("user", "Hi"), ("assistant", "Hello.")]
    assert conversation.usage == {1: Usage(61, 3, 0)}
    assert conversation.model == "gpt-4o-2024-08-06"


def test_swe_agent_lists_of_call_ids_are_one_id() -> None:
    conversation = load(CORPUS / "swe_agent.traj")
    assert conversation.messages[3] == {"role": "tool", "content": "a.py", "tool_call_id": "call_1"}
    assert at(conversation, "repeated_id") == (4, None)
    assert kinds(conversation) == ["repeated_id"]  # each result belongs to the nearest open call: nothing dangles


def test_tau_bench_is_a_list_of_tasks() -> None:
    first, second = load_all(CORPUS / "tau_bench.json")
    assert (first.title, second.title) == ("task 0, trial 0", "task 1, trial 0")
    assert first.problems == ()
    assert at(second, "repeated_id") == (4, None)


# Anthropic


def test_anthropic_results_become_tool_messages_and_the_system_is_no_message() -> None:
    conversation = load(CORPUS / "anthropic_request.json")
    assert conversation.format == "anthropic"
    assert conversation.system == "You look after a garden diary.\n\nBe brief."
    assert conversation.tools[0]["function"]["parameters"]["required"] == ["path"]
    assert conversation.messages[1] == {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "Two files.",
        "tool_calls": [
            call("toolu_1", "read_file", '{"path":"may.txt"}'),
            call("toolu_2", "read_file", '{"path":"june.txt"}'),
        ],
    }
    assert conversation.messages[2:5] == [
        {"role": "tool", "tool_call_id": "toolu_1", "content": "peas"},
        {"role": "tool", "tool_call_id": "toolu_2", "content": "no such file"},
        {"role": "user", "content": "And July?"},
    ]


def test_anthropic_text_before_a_result_stays_before_it() -> None:
    conversation = load(CORPUS / "anthropic_request.json")
    (defect,) = conversation.defects
    assert (defect.kind, defect.index) == ("misplaced_result", 7)
    assert defect.text == "message 7: the user message 6 parts this result from its call in message 5"


def test_anthropic_exchanges_are_one_conversation_a_cassette() -> None:
    one, two = load_all(CORPUS / "anthropic_exchanges.json")
    assert [message["role"] for message in one.messages] == ["user", "assistant", "tool", "assistant"]
    assert one.usage == {1: Usage(340, 20, 0), 3: Usage(360, 5, 300)}
    assert at(two, "compaction") == (1, None)
    surface = load(CORPUS / "anthropic_exchanges.json", conversation=1, surface=True)
    assert texts(surface) == [("user", "The user told a story."), ("assistant", "Good.")]


# Claude Code


def test_claude_code_sidechain_lines_are_not_the_conversation() -> None:
    """Left in, the sub-agent's own call would be a dangling one."""
    conversation = load(CORPUS / "claude_code_1_0_sidechain.jsonl")
    assert [message["role"] for message in conversation.messages] == ["user", "assistant", "tool", "assistant"]
    assert conversation.defects == ()
    assert at(conversation, "sidechain") == (None, 3)


def test_a_sub_agents_own_file_is_a_conversation(tmp_path: Path) -> None:
    lines = (CORPUS / "claude_code_1_0_sidechain.jsonl").read_text(encoding="utf-8").splitlines()
    path = tmp_path / "agent-1.jsonl"
    path.write_text("\n".join(lines[2:4]) + "\n", encoding="utf-8")
    conversation = load(path)
    assert [message["role"] for message in conversation.messages] == ["user", "assistant"]
    assert kinds(conversation) == ["dangling_call"]


def test_claude_code_lines_of_one_reply_are_one_message() -> None:
    conversation = load(CORPUS / "claude_code_2_1.jsonl")
    assert conversation.messages[1] == {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "Two files.",
        "tool_calls": [
            call("toolu_1", "Read", '{"file_path":"may.txt"}'),
            call("toolu_2", "Read", '{"file_path":"june.txt"}'),
        ],
    }
    assert [message["role"] for message in conversation.messages[2:5]] == ["tool", "tool", "user"]
    assert conversation.usage[1] == Usage(103, 48, 100)  # of the last line: the others are snapshots
    assert conversation.defects == ()
    assert at(conversation, "regrouped_calls") == (None, 10)
    assert at(conversation, "interrupted") == (4, 12)
    assert at(conversation, "foreign_summary") == (None, None)


def test_claude_code_surface_begins_after_the_boundary() -> None:
    surface = load(CORPUS / "claude_code_2_1.jsonl", surface=True)
    assert texts(surface) == [
        ("user", "This session is being continued. Peas grew in May."),
        ("user", "And in July?"),
        ("assistant", "Nothing yet."),
    ]
    assert surface.usage == {2: Usage(5, 4, 0)}
    assert "interrupted" not in kinds(surface)  # its message is not on the surface


def test_claude_code_prompts_that_were_taken_back_are_left_out() -> None:
    conversation = load(CORPUS / "claude_code_rewind.jsonl")
    assert [text for _, text in texts(conversation)] == ["Plant peas.", "Planted.", "Now water them.", "Watered."]
    (note,) = conversation.problems
    assert (note.kind, note.line) == ("abandoned_branch", 3)
    assert note.text == "3 lines (first on line 3) of a branch that the user went back from"


def test_a_line_that_is_in_the_file_twice_is_read_once(tmp_path: Path) -> None:
    lines = (CORPUS / "claude_code_rewind.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "twice.jsonl"
    path.write_bytes(b"".join([lines[0], lines[1], lines[1], lines[5], lines[6]]))
    conversation = load(path)
    assert len(conversation.messages) == 4
    assert at(conversation, "repeated_line") == (None, 3)


def test_results_that_hang_off_parallel_calls_are_no_branch(tmp_path: Path) -> None:
    """The second call hangs off the first, so the first one's result, reminder text and all, is a leaf of the tree."""
    rows = [
        ("user", "u1", None, {"role": "user", "content": "Go."}),
        ("assistant", "a1", "u1", {"id": "m", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]}),
        ("assistant", "a2", "a1", {"id": "m", "content": [{"type": "tool_use", "id": "t2", "name": "f", "input": {}}]}),
        ("user", "r1", "a1", {"content": [result("t1"), {"type": "text", "text": "<system-reminder>"}]}),
        ("user", "r2", "a2", {"content": [result("t2")]}),
        ("assistant", "a3", "r2", {"id": "n", "content": [{"type": "text", "text": "Done."}]}),
    ]
    lines = [
        {"type": type, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": message}
        for type, uuid, parent, message in rows
    ]
    path = tmp_path / "parallel.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    conversation = load(path)
    assert [message["role"] for message in conversation.messages] == [
        "user", "assistant", "tool", "tool", "user", "assistant",
    ]  # fmt: skip
    assert conversation.messages[4]["content"] == "<system-reminder>"  # sent after all results of the reply
    assert conversation.problems == ()


def result(id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": "r"}


# Codex


def test_codex_text_and_calls_up_to_the_first_output_are_one_reply() -> None:
    conversation = load(CORPUS / "codex.jsonl")
    roles = [message["role"] for message in conversation.messages]
    assert roles == ["developer", "user", "user", "assistant", "tool", "tool", "assistant", "tool", "user", "assistant"]
    assert conversation.messages[3] == {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "Two files.",
        "tool_calls": [
            call("call_1", "exec_command", '{"cmd": "cat may.txt"}'),
            call("call_2", "exec_command", '{"cmd": "cat june.txt"}'),
        ],
    }
    assert conversation.messages[5]["content"] == "beans"
    assert conversation.usage == {3: Usage(1000, 60, 800), 6: Usage(1100, 30, 1000), 9: Usage(300, 5, 0)}
    assert (conversation.system, conversation.model) == ("You are a gardener.", "gpt-5.5")


def test_codex_free_text_input_is_wrapped_and_a_search_does_not_dangle() -> None:
    conversation = load(CORPUS / "codex.jsonl")
    arguments = conversation.messages[6]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"input": "*** Begin Patch\n*** End Patch"}
    assert at(conversation, "server_call") == (6, 16)
    assert conversation.defects == ()


def test_codex_compaction_replaces_the_surface() -> None:
    surface = load(CORPUS / "codex.jsonl", surface=True)
    assert texts(surface) == [
        ("user", "# AGENTS.md instructions"),
        ("user", "Summary: peas and beans grew."),
        ("user", "And in July?"),
        ("assistant", "Corn."),
    ]
    assert surface.lines == (None, None, 21, 22)


def test_codex_files_without_envelopes_are_read_too() -> None:
    conversation = load(CORPUS / "codex_bare_items.jsonl")
    assert conversation.messages[1]["tool_calls"] == [call("call_1", "local_shell", '{"type":"exec","command":["ls"]}')]
    assert conversation.messages[2] == {"role": "tool", "tool_call_id": "call_1", "content": "a.txt"}


def test_a_responses_request_is_read_and_its_open_call_dangles() -> None:
    conversation = load(CORPUS / "openai_responses_request.json")
    assert conversation.system == "Be brief."
    assert [tool["function"]["name"] for tool in conversation.tools] == ["exec_command"]
    assert at(conversation, "dangling_call") == (3, None)


# pi


def test_pi_message_between_call_and_result_is_a_misplaced_result() -> None:
    """The shape behind a recorded 400: what the user ran with ! was written between a call and its result."""
    conversation = load(CORPUS / "pi_v1.jsonl")
    assert at(conversation, "misplaced_result") == (10, 14)
    assert texts(conversation)[9] == ("user", "Ran `ls`\n```\nbed1\nbed2\n\n```")
    assert at(conversation, "recorded_error") == (11, 15)


def test_pi_aborted_reply_is_kept_and_its_call_dangles() -> None:
    conversation = load(CORPUS / "pi_v1.jsonl")
    dangling = [(one.index, one.line) for one in conversation.problems if one.kind == "dangling_call"]
    assert dangling == [(4, 7), (6, 10)]  # lost at the compaction; cut short
    assert at(conversation, "aborted_reply") == (6, 10)
    assert conversation.usage == {index: Usage(130, 5, 100) for index in (1, 4, 8)}


def test_pi_command_without_output_and_with_a_code_reads_as_pi_sends_it() -> None:
    conversation = load(CORPUS / "pi_v1.jsonl")
    assert texts(conversation)[-1] == ("user", "Ran `false`\n(no output)\n\nCommand exited with code 1")
    assert all("secret" not in str(content) for _, content in texts(conversation))


def test_pi_version_1_counts_the_header_as_entry_0() -> None:
    """firstKeptEntryIndex 6 is line 7, the reply whose call the compaction parted from its result."""
    surface = load(CORPUS / "pi_v1.jsonl", surface=True)
    assert surface.lines[:3] == (None, 7, 9)
    assert surface.messages[0]["content"].endswith("<summary>\nPeas and beans grew.\n</summary>")


def test_pi_tree_is_read_from_the_last_entry_to_the_root() -> None:
    conversation = load(CORPUS / "pi_v3_tree.jsonl")
    contents = [content for _, content in texts(conversation)]
    assert contents[:2] == ["Plan the beds.", "Peas first."]
    assert contents[2].startswith("The following is a summary of a branch that this conversation came back from")
    assert contents[3:] == ["Peas then.", "Sown.", "It rains.", "It is May.", "Good."]
    assert at(conversation, "abandoned_branch") == (None, 4)
    assert conversation.title == "Beds"


def test_pi_tree_keeps_from_the_first_kept_entry_on() -> None:
    surface = load(CORPUS / "pi_v3_tree.jsonl", surface=True)
    assert [content for _, content in texts(surface)][1:] == ["Peas then.", "Sown.", "It rains.", "It is May.", "Good."]


def test_pi_version_2_hook_messages_are_user_messages() -> None:
    assert texts(load(CORPUS / "pi_v2_hook.jsonl"))[1] == ("user", "From a hook.")


# LangChain


def test_langchains_three_spellings_are_one_conversation() -> None:
    dump, to_dict, lc = (load(CORPUS / f"langchain_{name}.json") for name in ("model_dump", "to_dict", "dumpd"))
    assert dump.messages == to_dict.messages == lc.messages
    assert dump.messages[1]["tool_calls"][1] == call("read_file:1", "read_file", '{"path":"june.txt"}')
    assert dump.messages[1]["reasoning_content"] == "Two files."
    assert dump.messages[3]["content"] == "beans"
    assert {one.format for one in (dump, to_dict, lc)} == {"langchain"}
    assert dump.usage == {1: Usage(50, 20, 0)}
    assert (dump.id, dump.title, dump.problems) == ("thread-1", "Garden", ())


def test_langchain_neighbours_whose_results_follow_both_are_one_reply() -> None:
    conversation = load(CORPUS / "langchain_split_reply.json")
    assert [one["id"] for one in conversation.messages[1]["tool_calls"]] == ["write_todos:14", "present_files:15"]
    assert at(conversation, "merged_reply") == (1, None)
    assert conversation.usage == {1: Usage(9, 4, 0)}
    assert [message["role"] for message in conversation.messages[3:]] == ["tool", "assistant", "assistant"]


def test_langchain_invalid_calls_keep_their_text() -> None:
    conversation = load(CORPUS / "langchain_split_reply.json")
    assert conversation.messages[5]["tool_calls"] == [call("bad:1", "f", '{"a": ')]
    assert at(conversation, "bad_arguments") == (5, None)


# Gemini


def test_gemini_cli_call_without_result_dangles() -> None:
    conversation = load(CORPUS / "gemini_cli.json")
    assert [message["role"] for message in conversation.messages] == [
        "user", "assistant", "tool", "tool", "user", "assistant",
    ]  # fmt: skip
    (defect,) = conversation.defects
    assert defect.text == "message 1: call 'rf-2' (read_file) has no result"
    assert [message["content"] for message in conversation.messages[2:4]] == ["peas", "no such file"]
    assert conversation.usage == {1: Usage(100, 15, 40)}
    assert at(conversation, "recorded_error") == (4, None)


def test_gemini_parts_become_openai_parts() -> None:
    conversation = load(CORPUS / "gemini_cli.json")
    assert conversation.messages[4]["content"] == [
        {"type": "text", "text": "Look at "},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}},
    ]


def test_gemini_contents_without_ids_pair_by_order_and_name() -> None:
    conversation = load(CORPUS / "gemini_contents.json")
    assert conversation.problems == ()
    assert [one["id"] for one in conversation.messages[1]["tool_calls"]] == ["call_1_0", "call_1_1"]
    assert [(one["tool_call_id"], one["content"]) for one in conversation.messages[2:4]] == [
        ("call_1_0", "peas"),
        ("call_1_1", '{"lines":["beans"]}'),
    ]
    assert conversation.system == "Be brief."
    assert conversation.tools[0]["function"]["name"] == "read_file"


# dsh


def test_dsh_packed_rows_count_as_many_events_as_they_hold() -> None:
    """Three packed chunks take seq 2 to 4; without them the replaced range 1 to 7 would not be found."""
    surface = load(CORPUS / "dsh.jsonl", surface=True)
    assert surface.lines == (10, 12)
    assert surface.messages[0]["content"] == [
        {"type": "text", "text": "Checkpoint: "},
        {"type": "text", "text": "Peas grew."},
    ]
    assert surface.defects == ()


def test_dsh_record_keeps_what_the_summary_stands_for() -> None:
    conversation = load(CORPUS / "dsh.jsonl")
    assert conversation.lines == (3, 5, 7, 10, 12)
    assert conversation.messages[1] == {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "One file.",
        "tool_calls": [call("call_1", "bash", '{"command":"cat may.txt"}')],
    }
    assert at(conversation, "compaction") == (3, 10)
    assert at(conversation, "aborted_reply") == (4, 12)


# ctxlab


def test_ctxlab_sessions_keep_messages_clean_of_the_lines_own_keys() -> None:
    conversation = load(CORPUS / "ctxlab_session.jsonl")
    assert conversation.format == "ctxlab"
    assert conversation.messages[0] == {"role": "user", "content": "What grew?"}
    assert conversation.messages[4] == {"role": "user", "content": "And in July?", "seq": "kept"}
    assert at(conversation, "compaction") == (4, 6)
    (skipped,) = [one for one in conversation.notes if one.kind == "skipped_lines"]
    assert skipped.text == "2 lines are not part of the conversation: 1 compaction/start, 1 compaction/end"


def test_ctxlab_replace_stands_on_the_surface() -> None:
    surface = load(CORPUS / "ctxlab_session.jsonl", surface=True)
    assert [content for _, content in texts(surface)] == ["Summary: peas grew.", "And in July?", "Corn."]
    assert surface.lines == (None, 8, 9)


def test_a_sessions_own_views_are_what_load_gives(tmp_path: Path) -> None:
    with Session.create(open_store(str(tmp_path))) as session:
        for number in range(12):
            session.append({"role": "user", "content": f"question {number} " + "x " * 200})
            session.append({"role": "assistant", "content": f"answer {number} " + "y " * 200})
        session.compact(lambda _: "a short summary", force=True)
        session.append({"role": "user", "content": "and now?"})
        record, surface = session.record(), session.surface()
    (path,) = tmp_path.glob("**/*.jsonl")
    assert load(path).messages == record
    assert load(path, surface=True).messages == surface
    assert len(surface) < len(record) == 25


def test_two_writers_leave_a_repeated_seq(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    rows = [(1, "user", "from A"), (2, "assistant", "reply A"), (2, "user", "from B"), (3, "assistant", "reply B")]
    path.write_text(
        "".join(json.dumps({"seq": seq, "role": role, "content": text}) + "\n" for seq, role, text in rows),
        encoding="utf-8",
    )
    conversation = load(path)
    assert [text for _, text in texts(conversation)] == ["from A", "reply A", "from B", "reply B"]
    assert at(conversation, "repeated_seq") == (2, 3)


def test_the_synthetic_vietnamese_session_is_whole() -> None:
    conversation = load(CORPUS / "synthetic_vietnamese.jsonl")
    assert conversation.problems == ()
    assert conversation.messages[-1]["content"] == "Em nói em ở Huế."
    assert len(conversation.messages) == 11
