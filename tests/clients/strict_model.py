"""A model of four providers that refuses what they refuse, and calls the tool `weather` before it answers a question.

Rules: tests/fixtures/requests and the providers' own references. Nothing of a request is taken that its API doesn't know.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from json_server import JsonServer

Body = dict[str, Any]
WORDS = "Noted, and done. " * 10


class Refused(Exception):
    """Why a provider answers 400."""


class StrictModel(JsonServer):
    """Serves all four APIs. `on_request` is called with the number of each request before it is answered."""

    def __init__(self) -> None:
        self.requests: list[Body] = []
        self.refusals: list[str] = []
        self.on_request: Callable[[int], None] = lambda number: None
        super().__init__()

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: Any) -> tuple[int, Any]:
        return self.answer(path.partition("?")[0], body)

    def answer(self, path: str, body: Body) -> tuple[int, Body]:
        self.requests.append(body)
        number = len(self.requests)
        self.on_request(number)
        check, answer = API[path.rpartition("/")[2].rpartition(":")[2]]
        try:
            check(body)
        except Refused as refused:
            self.refusals.append(f"request {number}: {refused}")
            return 400, {"error": {"type": "invalid_request_error", "message": str(refused), "code": 400}}
        return 200, answer(body, number)


def demand(is_so: Any, text: str) -> None:
    if not is_so:
        raise Refused(text)


def members(value: Any, known: str, place: str) -> None:
    demand(isinstance(value, dict), f"{place}: no object")
    unknown = value.keys() - set(known.split())
    demand(not unknown, f"{place}: Extra inputs are not permitted: {sorted(unknown)}")


# Anthropic Messages

BLOCKS = {
    "text": "type text citations cache_control",
    "image": "type source cache_control",
    "thinking": "type thinking signature",
    "tool_use": "type id name input caller cache_control",
    "tool_result": "type tool_use_id content is_error cache_control",
}


def check_anthropic(body: Body) -> None:
    members(body, "model max_tokens messages system tools tool_choice thinking metadata stream temperature", "request")
    messages = body["messages"]
    demand(messages, "messages: at least one message is required")
    check_system(body)
    awaited: list[str] = []
    seen: set[str] = set()
    for index, message in enumerate(messages):
        place = f"messages.{index}"
        members(message, "role content", place)
        demand(message["role"] in ("user", "assistant"), f"{place}.role: Input should be user or assistant")
        blocks = blocks_of(message)
        demand(blocks, f"{place}: all messages must have non-empty content")
        for block in blocks:
            demand(block.get("type") in BLOCKS, f"{place}.content.type: {block.get('type')} is unknown")
            members(block, BLOCKS[block["type"]], place)
            demand(block["type"] != "text" or block["text"].strip(), f"{place}: text content blocks must be non-empty")
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        leading = [block["type"] == "tool_result" for block in blocks][: len(results)]
        demand(all(leading), f"{place}: tool_result blocks come first")
        demand(set(awaited) <= set(results), f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks")
        demand(set(results) <= set(awaited), f"{place}: unexpected `tool_use_id` found in `tool_result` blocks")
        demand(len(results) == len(set(results)), f"{place}: each tool_use must have a single result")
        check_thinking(body, index, blocks)
        awaited = [block["id"] for block in blocks if block["type"] == "tool_use"]
        demand(not seen & set(awaited), f"{place}: `tool_use` ids must be unique")
        seen |= set(awaited)
        demand(not awaited or message["role"] == "assistant", f"{place}: tool_use of a user")
    first = blocks_of(messages[0])
    demand(messages[0]["role"] == "user", 'first message must use the "user" role')
    demand(any(block["type"] != "tool_result" for block in first), "messages.0: only results")
    demand(messages[-1]["role"] == "user", "The conversation must end with a user message.")


def check_system(body: Body) -> None:
    system = body.get("system", "x")
    texts = [system] if isinstance(system, str) else [block["text"] for block in system]
    demand(texts and all(text.strip() for text in texts), "system: text content blocks must be non-empty")


def check_thinking(body: Body, index: int, blocks: list[Body]) -> None:
    """Thinking is bound to all that was before it."""
    for block in blocks:
        if block["type"] == "thinking":
            is_bound = block["signature"] == signature(body, body["messages"][:index])
            demand(is_bound, f"messages.{index}: Invalid `signature` in `thinking` block. It is bound to a different conversation.")


def signature(body: Body, before: list[Body]) -> str:
    said = [[message["role"], *map(written, blocks_of(message))] for message in before]
    return hashlib.sha256(json.dumps([body.get("system"), said]).encode()).hexdigest()


def written(block: Body) -> str:
    return json.dumps({name: value for name, value in block.items() if value is not None}, sort_keys=True)


def blocks_of(message: Body) -> list[Body]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def answer_anthropic(body: Body, number: int) -> Body:
    is_open = any(block["type"] == "tool_result" for block in blocks_of(body["messages"][-1]))
    bound = signature(body, body["messages"])
    content: list[Body] = [{"type": "thinking", "thinking": "Hm.", "signature": bound}] if body.get("thinking") else []
    content.append({"type": "text", "text": "Let me see." if not is_open else f"Answer {number}. {WORDS}"})
    if not is_open and body.get("tools"):
        content += [{"type": "tool_use", "id": f"toolu_{number}_{index}", "name": "weather", "input": {"city": city}}
                    for index, city in enumerate(cities_of(number))]
    usage = {"input_tokens": len(json.dumps(body)) // 4, "output_tokens": 9}
    reason = "tool_use" if content[-1]["type"] == "tool_use" else "end_turn"
    return {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"], "content": content,
            "stop_reason": reason, "stop_sequence": None, "usage": usage}


def cities_of(number: int) -> list[str]:
    """One call or two in parallel."""
    return ["Oslo", "Rome"] if number % 4 == 1 else ["Oslo"]


# OpenAI Chat Completions


def check_chat(body: Body) -> None:
    demand(body["messages"], "messages: empty")
    awaited: list[str] = []
    for index, message in enumerate(body["messages"]):
        place = f"messages.{index}"
        role = message.get("role")
        demand(role in CHAT, f"{place}: role {role!r} is unknown")
        members(message, CHAT[role], place)
        if role == "tool":
            is_awaited = message["tool_call_id"] in awaited
            demand(is_awaited, f"{place}: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
            awaited.remove(message["tool_call_id"])
            demand(isinstance(message["content"], (str, list)), f"{place}: content of a tool")
            continue
        demand(not awaited, f"{place}: The following tool_call_ids did not have response messages: {awaited}")
        calls = message.get("tool_calls")
        demand(calls != [], f"{place}: [] is too short - 'messages.tool_calls'")
        demand(message.get("content") is not None or calls, f"{place}: content: expected a string, got null")
        for call in calls or []:
            members(call, "id type function", place)
            members(call["function"], "name arguments", place)
            json.loads(call["function"]["arguments"])
        awaited = [call["id"] for call in calls or []]
    demand(not awaited, f"The following tool_call_ids did not have response messages: {awaited}")


CHAT = {
    "system": "role content name",
    "developer": "role content name",
    "user": "role content name",
    "assistant": "role content name tool_calls refusal audio function_call annotations",
    "tool": "role content tool_call_id",
}


def answer_chat(body: Body, number: int) -> Body:
    if body["messages"][-1]["role"] == "user" and body.get("tools"):
        calls = [{"id": f"call_{number}_{index}", "type": "function",
                  "function": {"name": "weather", "arguments": json.dumps({"city": city})}}
                 for index, city in enumerate(cities_of(number))]
        said, reason = {"content": None, "tool_calls": calls}, "tool_calls"
    else:
        said, reason = {"content": f"Answer {number}. {WORDS}"}, "stop"
    message = {"role": "assistant", "refusal": None, "annotations": [], **said}
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    usage = {"prompt_tokens": len(json.dumps(body)) // 4, "completion_tokens": 9, "total_tokens": 18}
    return {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": [choice], "usage": usage}


# OpenAI Responses

ITEMS = {
    "message": "type id role content status phase",
    "reasoning": "type id summary content encrypted_content status",
    "function_call": "type id call_id name arguments status",
    "function_call_output": "type id call_id output status",
}


def check_responses(body: Body) -> None:
    demand(isinstance(body.get("instructions", ""), str) or body["instructions"] is None, "instructions: a string")
    items = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
    demand(items, "input: empty")
    # OpenAI knows its own answers by their ids, unless it is told not to store them.
    is_kept = body.get("store") is not False
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    results = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    demand(len(set(calls)) == len(calls) and len(set(results)) == len(results), "call_ids: twice")
    for index, item in enumerate(items):
        kind = item.get("type") or "message"
        demand(kind in ITEMS, f"input[{index}]: type {kind} is unknown")
        members(item, ITEMS[kind], f"input[{index}]")
        check_item(kind, item, items[index - 1] if index else {}, items[index + 1 :], is_kept)
    lacking = sorted(set(calls) - set(results))
    demand(not lacking, f"No tool output found for function call {lacking}.")
    demand(set(results) <= set(calls), f"No tool call found for function call output with call_id {set(results) - set(calls)}.")


def check_item(kind: str, item: Body, previous: Body, following: list[Body], is_kept: bool) -> None:
    if kind == "message":
        demand(item["role"] in ("user", "assistant", "system", "developer"), f"role {item['role']!r}")
        demand(item["content"], "content: empty")
    if kind == "function_call":
        json.loads(item["arguments"])
    if kind == "reasoning":
        is_followed = following and (following[0].get("role") == "assistant" or following[0].get("type") in ("reasoning", "function_call"))
        demand(is_followed, f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item.")
        demand(is_kept or item.get("encrypted_content"), f"Item with id '{item.get('id')}' not found.")
    reasoned = previous.get("type") in ("reasoning", "function_call")
    demand(kind != "function_call" or "id" not in item or reasoned, f"Item '{item.get('id')}' was provided without its 'reasoning' item.")


def answer_responses(body: Body, number: int) -> Body:
    last = body["input"][-1] if isinstance(body["input"], list) else {"role": "user"}
    reasoning: Body = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
    if "reasoning.encrypted_content" in (body.get("include") or []):
        reasoning["encrypted_content"] = "eHl6"
    if last.get("role") == "user" and body.get("tools"):
        output: list[Body] = [
            {"type": "function_call", "id": f"fc_{number}_{index}", "call_id": f"call_{number}_{index}", "name": "weather",
             "arguments": json.dumps({"city": city}), "status": "completed"} for index, city in enumerate(cities_of(number))]
    else:
        text = {"type": "output_text", "text": f"Answer {number}. {WORDS}", "annotations": []}
        output = [{"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [text]}]
    usage = {"input_tokens": len(json.dumps(body)) // 4, "output_tokens": 9, "total_tokens": 18,
             "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": body["model"], "output": [reasoning, *output],
            "status": "completed", "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage}


# Gemini

PART = "text inlineData fileData functionCall functionResponse thought thoughtSignature"


def check_gemini(body: Body) -> None:
    members(body, "contents systemInstruction tools toolConfig generationConfig safetySettings", "request")
    demand(body["contents"], "contents is not specified")
    calls = 0
    for index, content in enumerate(body["contents"]):
        place = f"contents[{index}]"
        members(content, "role parts", place)
        demand(content["role"] in ("user", "model"), f"{place}: Please use a valid role: user, model.")
        demand(content["parts"], f"{place}.parts: must not be empty")
        for part in content["parts"]:
            members(part, PART, place)
            one = part.keys() & {"text", "inlineData", "fileData", "functionCall", "functionResponse"}
            demand(len(one) == 1, f"{place}: exactly one data field is needed")
            demand(part.get("text") != "" or "thoughtSignature" in part, f"{place}: empty text")
            demand(part.get("thoughtSignature", "YWJj") == "YWJj", "Invalid/Corrupted thought signature")
        responses = [part for part in content["parts"] if "functionResponse" in part]
        equal = "the number of function response parts is equal to the number of function call parts of the function call turn"
        demand(len(responses) == calls, f"{place}: Please ensure that {equal}.")
        asked = [part for part in content["parts"] if "functionCall" in part]
        is_behind = index and body["contents"][index - 1]["role"] == "user"
        turn = "function call turn comes immediately after a user turn or after a function response turn"
        demand(not asked or is_behind, f"{place}: Please ensure that {turn}.")
        signed = not asked or "thoughtSignature" in asked[0] or not is_in_current_turn(body["contents"], index)
        demand(signed, f"{place}: Function call is missing a thought_signature in functionCall parts.")
        calls = len(asked)
    demand(body["contents"][-1]["role"] == "user", "the history must end with a user or function turn")


def is_in_current_turn(contents: list[Body], index: int) -> bool:
    return not any(content["role"] == "user" and any("text" in part for part in content["parts"]) for content in contents[index + 1 :])


def answer_gemini(body: Body, number: int) -> Body:
    is_open = any("functionResponse" in part for part in body["contents"][-1]["parts"])
    if is_open or not body.get("tools"):
        parts: list[Body] = [{"text": f"Answer {number}. {WORDS}"}]
    else:
        parts = [{"functionCall": {"name": "weather", "args": {"city": city}}} for city in cities_of(number)]
        parts[0]["thoughtSignature"] = "YWJj"
    usage = {"promptTokenCount": len(json.dumps(body)) // 4, "candidatesTokenCount": 9, "totalTokenCount": 18}
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": usage, "modelVersion": "gemini-3.8-flash", "responseId": f"r-{number}"}


API: dict[str, tuple[Callable[[Body], None], Callable[[Body, int], Body]]] = {
    "messages": (check_anthropic, answer_anthropic),
    "completions": (check_chat, answer_chat),
    "responses": (check_responses, answer_responses),
    "generateContent": (check_gemini, answer_gemini),
}


def texts(value: Any) -> Iterator[str]:
    """All strings in a body."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from texts(member)
    elif isinstance(value, list):
        for element in value:
            yield from texts(element)
