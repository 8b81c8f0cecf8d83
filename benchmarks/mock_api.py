"""Requests a second of ``ctxlab mock-api`` for a prompt of 2,000 tokens, with the server on one core.

    python benchmarks/mock_api.py [--seconds 3] [--connections 4]

The server is a process of its own, held on one core where the system can do that; the client, which only sends bytes
and reads them, runs beside it. Every request is another text, so that no remembered count helps, and every prompt is
parsed, checked against the provider's rules, counted and answered. Goal: 200 requests a second on one core, in both
shapes, by the processor time of the server, which what else runs on the machine does not change; the clock beside it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import random
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

from ctxlab.mock_api import HOST, serve
from ctxlab.models import SHOP_TOOLS, conversation
from ctxlab.tokens import count_request

GOAL = 200


def server(pipe: Connection) -> None:
    """The server's process: on the first core alone, until it is told to end."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with serve() as api:
        count_request([{"role": "user", "content": "loads the tokenizer"}])
        pipe.send(api.port)
        while pipe.recv() != "end":
            times = os.times()
            pipe.send(times.user + times.system)


def prompts(count: int) -> list[list[dict[str, Any]]]:
    """Histories of about 2,000 tokens with tools, no two alike: two rounds with a call each, and a question."""
    made = []
    for seed in range(count):
        history = conversation(2, seed=seed, round_tokens=960)
        history[0]["content"] += f"\n> {random.Random(seed).random()}"
        made.append([*history, {"role": "user", "content": "Where do I live?"}])
    return made


def openai_body(history: list[dict[str, Any]], stream: bool) -> bytes:
    return json.dumps({"model": "m", "messages": history, "tools": SHOP_TOOLS, "stream": stream}).encode()


def anthropic_body(history: list[dict[str, Any]], stream: bool) -> bytes:
    messages = []
    for message in history:
        if message["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            messages.append({"role": "user", "content": [block]})
            continue
        blocks = [{"type": "text", "text": message["content"]}] if message["content"] else []
        for call in message.get("tool_calls", ()):
            function = call["function"]
            given = json.loads(function["arguments"])
            blocks.append({"type": "tool_use", "id": call["id"], "name": function["name"], "input": given})
        messages.append({"role": message["role"], "content": blocks})
    tools = [{"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]} for tool in SHOP_TOOLS]
    data = {"model": "m", "max_tokens": 200, "messages": messages, "tools": tools, "stream": stream}
    return json.dumps(data).encode()


def measure(port: int, path: str, bodies: list[bytes], seconds: float, connections: int) -> tuple[int, float, float]:
    """How many requests, how many a second, and the slowest of 99 in 100 in milliseconds."""
    headers = {"content-type": "application/json", "authorization": "Bearer k", "anthropic-version": "2023-06-01"}
    queue, taken, times = iter(bodies), threading.Lock(), []
    end = time.perf_counter() + seconds

    def client() -> None:
        connection = http.client.HTTPConnection(HOST, port)
        while time.perf_counter() < end:
            with taken:
                body = next(queue, None)
            if body is None:
                break
            start = time.perf_counter()
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            answer = response.read()
            times.append(time.perf_counter() - start)
            if response.status != 200:
                raise SystemExit(f"{path} answered {response.status}: {answer[:300]!r}")
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(connections)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(times), len(times) / (time.perf_counter() - start), sorted(times)[int(len(times) * 0.99) - 1] * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=4)
    options = parser.parse_args()
    histories = prompts(int(options.seconds * 1_500))
    sizes = [count_request(history, SHOP_TOOLS) for history in histories[:50]]
    print(f"  prompts of {min(sizes):,} to {max(sizes):,} tokens, {options.connections} connections")
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=server, args=(theirs,), daemon=True)
    process.start()
    port = ours.recv()
    runs = (
        ("OpenAI shape", "/v1/chat/completions", openai_body, False),
        ("OpenAI shape, streamed", "/v1/chat/completions", openai_body, True),
        ("Anthropic shape", "/v1/messages", anthropic_body, False),
        ("Anthropic shape, streamed", "/v1/messages", anthropic_body, True),
    )
    quarter = len(histories) // len(runs)
    for number, (name, path, write, stream) in enumerate(runs):
        part = histories[number * quarter : (number + 1) * quarter]
        bodies = [write(history, stream) for history in part]
        before = used(ours)
        count, rate, slowest = measure(port, path, bodies, options.seconds, options.connections)
        core = count / (used(ours) - before)
        verdict = "reached" if core >= GOAL else "MISSED"
        print(
            f"  {name:<26} {core:6.0f} requests a core-second, goal {GOAL}: {verdict}   "
            f"({rate:4.0f} a second by the clock, 99 of 100 within {slowest:5.1f} ms)"
        )
    ours.send("end")
    process.join()


def used(server: Connection) -> float:
    """Seconds of processor time that the server has used so far."""
    server.send("time")
    return server.recv()


if __name__ == "__main__":
    main()
